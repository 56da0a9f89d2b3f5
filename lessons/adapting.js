// The pictures of lesson 9. `compute` has the same numbers as the functions in adapting.py.

const K = 5;
const range = (n) => Array.from({ length: n }, (_, i) => i);
const dot = (a, b) => sum(a.map((value, i) => value * b[i]));

/** RRRR's P(answer | truth) with the subset of the first k categories (section 1 of docs/math.md). */
function rrrr(k, epsilon, kappa) {
  const [e1, rest] = [Math.exp(kappa * epsilon), K - k];
  let e2 = Math.exp(epsilon);
  if (k > 0 && rest > 1 && (1 - kappa) * epsilon < Math.log(rest)) e2 = Math.min(e2, (rest - 1) / (Math.exp((kappa - 1) * epsilon) * rest - 1));
  const inner = 1 / (e1 + k);
  const outer = (k ? e1 * inner : 1) / (e2 + rest - 1);
  return range(K).map((y) => range(K).map((x) => {
    if (y < k) return x === y ? e1 * inner : inner;
    if (x < k) return inner / rest;
    return x === y ? e2 * outer : outer;
  }));
}

/** The inverse of a matrix by elimination, or null if it has none. */
function inverse(matrix) {
  const rows = matrix.map((row, i) => [...row, ...range(K).map((j) => (i === j ? 1 : 0))]);
  for (let i = 0; i < K; i += 1) {
    const pivot = range(K).slice(i).reduce((best, j) => (Math.abs(rows[j][i]) > Math.abs(rows[best][i]) ? j : best), i);
    [rows[i], rows[pivot]] = [rows[pivot], rows[i]];
    if (Math.abs(rows[i][i]) < 1e-12) return null;
    rows[i] = rows[i].map((value) => value / rows[i][i]);
    rows.forEach((row, j) => { if (j !== i) rows[j] = row.map((value, l) => value - row[i] * rows[i][l]); });
  }
  return rows.map((row) => row.slice(K));
}

/** The variances of the best estimates of the shares, for one answer; null if some cannot be estimated. */
function variances(G, theta) {
  const back = inverse(G);
  const h = G.map((row) => dot(row, theta));
  return back && back.map((row, i) => sum(row.map((value, y) => value ** 2 * h[y])) - theta[i] ** 2);
}

const UTILITIES = {
  honest: (G, theta) => sum(theta.map((share, x) => share * G[x][x])),
  fisher: (G, theta) => { const found = variances(G, theta); return found && -sum(found.slice(0, -1)); }, // the rarest is left out
  entropy: (G, theta) => sum(G.map((row) => dot(row, theta)).map((h) => h * Math.log(h))),
  tv1: (G, theta) => 0.5 * sum(G.map((row) => { const h = dot(row, theta); return sum(row.map((g, x) => theta[x] * Math.abs(g - h))); })),
  tv2: (G, theta) => -0.5 * sum(G.map((row, y) => Math.abs(dot(row, theta) - theta[y]))),
  mse: (G, theta) => sum(G.map((row) => sum(row.map((g, x) => (g * theta[x]) ** 2)) / dot(row, theta))) - 1,
};

function best(values) {
  const finite = values.filter((value) => value !== null);
  const most = Math.max(...finite);
  return values.findIndex((value) => value !== null && value >= most - 1e-12 * Math.abs(most) - 1e-14); // ties go to the smallest
}

const pictures = {
  sizes: {
    compute({ rule, ratio, epsilon, kappa }, data) {
      const weights = range(K).map((i) => ratio ** -i);
      const theta = weights.map((weight) => weight / sum(weights));
      const tables = range(K).map((k) => rrrr(k, epsilon, kappa));
      const byMass = rule.startsWith("mass");
      const values = byMass ? range(K).map((k) => sum(theta.slice(0, k))) : tables.map((G) => UTILITIES[rule](G, theta));
      const enough = values.findIndex((value) => value >= 0.9 - 1e-12);
      const cell = `${epsilon}_${ratio}`;
      const needed = tables.map((G) => variances(G, theta));
      return {
        values,
        size: byMass ? (enough < 0 ? K - 1 : enough) : best(values),
        people: needed.map((found) => found && sum(found) / data.bound[cell]),
        selection: data.selection[cell] / data.bound[cell],
      };
    },
    draw({ values, size, people, selection }, { rule }) {
      const shown = values.filter((value) => value !== null);
      const [low, high] = [Math.min(...shown), Math.max(...shown)];
      const margin = Math.max(0.1 * (high - low), 0.02 * Math.abs(high));
      const points = values.map((value, k) => [k, value]).filter(([, value]) => value !== null);
      const sizes = { names: range(K).map(String), label: "size of S" };
      return [
        {
          title: `${rule}: chooses ${size}`,
          x: sizes,
          y: { from: low - margin, to: high + margin },
          marks: [
            { line: points, color: 0 },
            { dots: points.filter(([k]) => k !== size), color: 1 },
            { dots: points.filter(([k]) => k === size), color: 2, size: 7, label: "chosen" },
          ],
        },
        {
          title: "People needed, if there are many",
          x: sizes,
          y: { from: 0.8, to: 1000, log: true, ticks: [1, 10, 100, 1000], label: "times the best question" },
          marks: [
            { dots: people.map((each, k) => [k, each]).filter(([k, each]) => each !== null && k !== size), color: 1, size: 6 },
            { dots: people.map((each, k) => [k, each]).filter(([k, each]) => each !== null && k === size), color: 2, size: 7, label: "chosen" },
            { rule: { y: 1 }, color: 0, dash: true, label: "best question of all" },
            { rule: { y: selection }, color: 3, label: "sets (lesson 4)" },
          ],
        },
      ];
    },
    say({ size, people, selection }, { rule }) {
      const needs = people[size] === null ? "never learns some of the shares" : `needs ${say(people[size])} times the people of the best question`;
      return `The rule “${rule}” puts ${size === 0 ? "no category" : size === 1 ? "1 category" : `${size} categories`} into S. With many people that ${needs}; sets need ${say(selection)} times.`;
    },
  },

  study: {
    compute({ rho, epsilon, prior }, data) {
      const errors = data.errors[`${prior}_${epsilon}_${rho}`];
      const ratios = Object.entries(errors).map(([name, [median]]) => [name, median / errors["randomized response"][0]]);
      return { errors, ratios: Object.fromEntries(ratios) };
    },
    draw(numbers) {
      const errors = Object.values(numbers.errors);
      return [{
        title: "Error of the shares",
        height: 360,
        x: { from: 0, to: 0.3, label: "½ Σ |estimate − truth|" },
        y: { names: ["plain", ...Object.keys(numbers.errors).slice(1)] },
        marks: [
          { rule: { x: errors[0][0] }, color: 0, dash: true, label: "plain randomized response" },
          { ranges: errors.slice(0, 2).map(([median, low, high], i) => [i, low, high, median]), across: true, color: 3, label: "not adaptive" },
          { ranges: errors.slice(2).map(([median, low, high], i) => [i + 2, low, high, median]), across: true, color: 1, label: "RRRR, adaptive" },
        ],
      }];
    },
    say({ ratios }, { rho, prior }) {
      const least = Object.keys(ratios).reduce((best, name) => (ratios[name] < ratios[best] ? name : best));
      return `ρ = ${rho}, ${prior} prior: “${least}” has the smallest median error, ${ratios[least].toFixed(2)} times that of randomized response. By honest: ${ratios["by honest"].toFixed(2)} times. By mass, α = 0.9: ${ratios["by mass, α = 0.9"].toFixed(2)} times.`;
    },
  },
};
