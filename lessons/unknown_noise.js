// The pictures of lesson 8: what answers tell about ε and the share together. `compute` has the numbers of unknown_noise.py.

const [SHARE, EPSILON] = [0.3, 1];
const EPSILONS = steps(0.1, 5, 99);
const SHARES = Array.from({ length: 400 }, (_, i) => (i + 0.5) / 400);

const keeps = (epsilon) => 1 / (1 + Math.exp(-epsilon));
const yesProbability = (share, epsilon) => 1 - keeps(epsilon) + (2 * keeps(epsilon) - 1) * share;

/** Masses from their logarithms, which sum to one. */
function normalized(values) {
  const top = values.reduce((most, value) => Math.max(most, value), -Infinity);
  const mass = values.map((value) => Math.exp(value - top));
  const total = sum(mass);
  return mass.map((each) => each / total);
}

/** Where the cumulative mass reaches `level`, between the middles of the cells. */
function quantile(grid, mass, level) {
  let [before, last] = [0, null];
  for (let i = 0; i < grid.length; i += 1) {
    const here = before + mass[i] / 2;
    if (here >= level) return last === null ? grid[i] : grid[i - 1] + ((level - last) / (here - last)) * (grid[i] - grid[i - 1]);
    before += mass[i];
    last = here;
  }
  return grid[grid.length - 1];
}

const intervalOf = (grid, mass) => [0.025, 0.975].map((level) => quantile(grid, mass, level));

function unknown(n, calls) {
  const [yes, hits] = [n * yesProbability(SHARE, EPSILON), calls * keeps(EPSILON)];
  const answers = (share, epsilon) => {
    const h = yesProbability(share, epsilon);
    return yes * Math.log(h) + (n - yes) * Math.log1p(-h);
  };
  const tests = (epsilon) => hits * Math.log(keeps(epsilon)) + (calls - hits) * Math.log1p(-keeps(epsilon));
  const mass = normalized(EPSILONS.flatMap((epsilon) => { const tested = tests(epsilon); return SHARES.map((share) => answers(share, epsilon) + tested); }));
  const sorted = Float64Array.from(mass).sort().reverse();
  let [held, i] = [sorted[0], 0];
  while (held < 0.95) held += sorted[(i += 1)];
  const edge = sorted[i];
  const rows = EPSILONS.map((_, j) => mass.slice(j * SHARES.length, (j + 1) * SHARES.length));
  const half = 0.5 / SHARES.length;
  const first = rows.map((row) => row.findIndex((each) => each >= edge));
  const last = rows.map((row) => row.findLastIndex((each) => each >= edge));
  const known = normalized(SHARES.map((share) => answers(share, EPSILON)));
  const shares = SHARES.map((_, k) => sum(rows.map((row) => row[k])));
  return {
    low: first.map((k) => (k < 0 ? null : SHARES[k] - half)),
    high: last.map((k) => (k < 0 ? null : SHARES[k] + half)),
    known,
    unknown: shares,
    known_interval: intervalOf(SHARES, known),
    unknown_interval: intervalOf(SHARES, shares),
    epsilon_interval: intervalOf(EPSILONS, rows.map(sum)),
  };
}

function panels({ low, high, known, unknown: shares }) {
  const band = EPSILONS.map((epsilon, j) => [epsilon, low[j], high[j]]).filter(([, from]) => from !== null);
  const scaled = (mass) => { const top = Math.max(...mass); return mass.map((each, k) => [SHARES[k], 0, each / top]); };
  return [
    {
      title: "Which ε and which share fit the answers?",
      height: 320,
      x: { from: 0, to: 5, label: "ε" },
      y: { from: 0, to: 0.6, percent: true, label: "share of “yes”" },
      marks: [{ area: band, color: 1, label: "95 % of the posterior" }, { dots: [[EPSILON, SHARE]], color: 2, size: 6, label: "truth" }],
    },
    {
      title: "The share of “yes”",
      height: 320,
      x: { from: 0, to: 0.6, percent: true, label: "share of “yes”" },
      y: { from: 0, to: 1.05, ticks: [], label: "posterior density, scaled" },
      marks: [
        { area: scaled(shares), color: 1, label: "ε unknown" },
        { line: scaled(known).map(([share, , value]) => [share, value]), color: 2, label: "ε known" },
        { rule: { x: SHARE }, color: 0, dash: true, label: "truth" },
      ],
    },
  ];
}

const words = ([low, high]) => `${percent(low)} to ${percent(high)}`;

const pictures = {
  people: {
    compute: ({ n }) => unknown(n, 0),
    draw: panels,
    say: (numbers, { n }) => `${say(n, 6)} people: with ε known the share is ${words(numbers.known_interval)}, with ε unknown ${words(numbers.unknown_interval)}.`,
  },
  calls: {
    compute: ({ calls }) => unknown(10000, calls),
    draw: panels,
    say: (numbers, { calls }) => `10,000 people and ${say(calls, 6)} test calls: the share is ${words(numbers.unknown_interval)}, and ε is ${numbers.epsilon_interval.map((each) => say(each, 2)).join(" to ")}.`,
  },
};
