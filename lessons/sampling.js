// The picture of lesson 5: draws of two samplers on the exact posterior. `compute` has the same numbers as sampling.py.

const BATCHES = { 10: 10, 50: 50, 200: 200, all: 0 };
const DIRECTIONS = 60;

/** Σ counts·ln h(θ) at the shares a, b and 1 − a − b, for randomized response at ε = 1. */
function logLikelihood(counts, a, b) {
  const total = Math.E + 2;
  return sum([a, b, 1 - a - b].map((share, i) => counts[i] * Math.log((1 + (Math.E - 1) * share) / total)));
}

/** The edge of the region in which the likelihood is at least this, as points around its middle. It is convex. */
function outline({ counts, mean }, edge) {
  return Array.from({ length: DIRECTIONS }, (_, turn) => {
    const angle = (2 * Math.PI * turn) / DIRECTIONS;
    const at = (far) => [mean[0] + far * Math.cos(angle), mean[1] + far * Math.sin(angle)];
    let [inside, outside] = [0, 2];
    for (let i = 0; i < 50; i += 1) {
      const middle = (inside + outside) / 2;
      const [a, b] = at(middle);
      if (Math.min(a, b, 1 - a - b) >= 0 && logLikelihood(counts, a, b) >= edge) inside = middle;
      else outside = middle;
    }
    return at(inside);
  });
}

const closed = (points) => [...points, points[0]];

function clouds(n, batch, data) {
  const of = data[n];
  const name = `sgld_${BATCHES[batch]}`;
  const drawn = (key) => of.draws[key].map(([a, b]) => [a / 10000, b / 10000]);
  return {
    half: outline(of, of.edges[0]),
    most: outline(of, of.edges[1]),
    sgld: drawn(name),
    controlled: drawn("sgld_cv"),
    width: of.width[name],
    controlled_width: of.width.sgld_cv,
    reach: 8 * Math.max(...of.sd),
  };
}

function panel(title, { half, most, reach }, dots, wide) {
  const middle = (i) => sum(half.map((point) => point[i])) / half.length;
  const axis = (i, label) => ({ from: Math.max(0, middle(i) - reach), to: Math.min(1, middle(i) + reach), percent: true, label });
  return {
    title: `${title}: ${wide.toFixed(1)} times as wide`,
    height: 340,
    x: axis(0, "share of “never”"),
    y: axis(1, "share of “once”"),
    marks: [
      { dots, color: wide > 1.15 ? 2 : 1, size: 2.5, label: "draws" },
      { line: closed(most), color: 0, label: "95 % of the posterior" },
      { line: closed(half), color: 0, dash: true, label: "50 %" },
    ],
  };
}

const pictures = {
  people: {
    compute: ({ n }, data) => clouds(n, "50", data),
    draw: (numbers) => [panel("SGLD", numbers, numbers.sgld, numbers.width)],
    say: ({ width }, { n }) => `With ${say(n, 6)} people and batches of 50, the draws of SGLD are ${width.toFixed(1)} times as spread out as the posterior.`,
  },
  batches: {
    compute: ({ batch }, data) => clouds(30000, batch, data),
    draw: (numbers) => [
      panel("SGLD", numbers, numbers.sgld, numbers.width),
      panel("With control variates", numbers, numbers.controlled, numbers.controlled_width),
    ],
    say: ({ width, controlled_width: controlled }, { batch }) => `With 30,000 people and ${batch === "all" ? "all answers in every batch" : `batches of ${batch}`}, the draws of SGLD are ${width.toFixed(1)} times as spread out as the posterior, those with control variates ${controlled.toFixed(1)} times.`,
  },
};
