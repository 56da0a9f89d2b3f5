// The pictures of lesson 2. `compute` has the same numbers as the functions in many_answers.py.

const HONEST = 30;
const CELLS = 4000;

function truthful(epsilon) {
  return 1 / (1 + Math.exp(-epsilon));
}

function timesLog(count, probability) {
  return count === 0 ? 0 : count * Math.log(probability);
}

/** ln P(answers | θ), up to a constant: yes of n people are heard to say yes. */
function logLikelihood(theta, yes, n, epsilon) {
  const p = truthful(epsilon);
  const h = 1 - p + (2 * p - 1) * theta;
  return timesLog(yes, h) + timesLog(n - yes, 1 - h);
}

/** The middle 95 % of the posterior under a flat prior, by the trapezoidal rule over all that matters of it. */
function middle(yes, n, epsilon) {
  const signal = 2 * truthful(epsilon) - 1;
  const share = (yes + 1) / (n + 2);
  const best = Math.min(1, Math.max(0, (share - (1 - signal) / 2) / signal));
  const sd = Math.sqrt((share * (1 - share)) / n) / signal;
  const grid = steps(Math.max(0, best - 9 * sd), Math.min(1, best + 9 * sd), CELLS + 1);
  const value = grid.map((theta) => logLikelihood(theta, yes, n, epsilon));
  const top = value.reduce((a, b) => Math.max(a, b));
  const density = value.map((each) => Math.exp(each - top));
  const below = [0];
  for (let i = 1; i <= CELLS; i += 1) below.push(below[i - 1] + (density[i - 1] + density[i]) / 2);
  return [0.025, 0.975].map((part) => {
    const wanted = part * below[CELLS];
    const i = below.findIndex((each) => each >= wanted);
    const within = (wanted - below[i - 1]) / (below[i] - below[i - 1]);
    return grid[i - 1] + within * (grid[i] - grid[i - 1]);
  });
}

function plausible(yes, n, epsilon) {
  const value = steps(0, 1, 1001).map((theta) => logLikelihood(theta, yes, n, epsilon));
  const top = value.reduce((a, b) => Math.max(a, b));
  return value.map((each) => Math.exp(each - top));
}

function price(epsilon, truth) {
  const signal = 2 * truthful(epsilon) - 1;
  const h = (1 - signal) / 2 + signal * truth;
  return (h * (1 - h)) / signal ** 2 / (truth * (1 - truth));
}

const pictures = {
  funnel: {
    compute({ epsilon, people, number }, data) {
      const found = {};
      for (const [name, used] of [["private", epsilon], ["honest", HONEST]]) {
        const yes = data.yes[used][number];
        const ends = data.people.map((n, i) => middle(yes[i], n, used));
        const posterior = plausible(yes[data.people.indexOf(people)], people, used);
        found[name] = { low: ends.map((each) => each[0]), high: ends.map((each) => each[1]), posterior };
      }
      return found;
    },
    draw({ private: noisy, honest }, { people }) {
      const sizes = [10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000];
      const band = ({ low, high }) => sizes.map((n, i) => [n, low[i], high[i]]);
      const share = { from: 0, to: 1, percent: true, ticks: [0, 0.25, 0.5, 0.75, 1] };
      const points = steps(0, 1, 1001);
      const curve = ({ posterior }) => points.map((theta, i) => [theta, 0, posterior[i]]);
      return [
        {
          title: "What you know, as people are added",
          height: 330,
          x: { from: 10, to: 100000, log: true, label: "people", format: (n) => (n >= 1000 ? `${n / 1000}k` : `${n}`) },
          y: { ...share, label: "share who cheated" },
          marks: [
            { area: band(noisy), color: 1, label: "private answers" },
            { line: sizes.map((n, i) => [n, noisy.low[i]]), color: 1 },
            { line: sizes.map((n, i) => [n, noisy.high[i]]), color: 1 },
            { area: band(honest), color: 2, label: "honest answers" },
            { line: sizes.map((n, i) => [n, honest.low[i]]), color: 2 },
            { line: sizes.map((n, i) => [n, honest.high[i]]), color: 2 },
            { rule: { y: 0.3 }, color: 0, dash: true, label: "truth" },
            { rule: { x: people }, color: 0 },
          ],
        },
        {
          title: `The posterior with ${say(people, 6)} people`,
          height: 330,
          x: { ...share, label: "share who cheated" },
          y: { from: 0, to: 1.05, ticks: [], label: "how plausible" },
          marks: [
            { area: curve(noisy), color: 1 },
            { line: points.map((theta, i) => [theta, noisy.posterior[i]]), color: 1, label: "private answers" },
            { line: points.map((theta, i) => [theta, honest.posterior[i]]), color: 2, label: "honest answers" },
            { rule: { x: 0.3 }, color: 0, dash: true },
          ],
        },
      ];
    },
    say({ private: noisy, honest }, { people }) {
      const i = [10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000].indexOf(people);
      const words = ({ low, high }) => `${percent(low[i], 3)} to ${percent(high[i], 3)}`;
      return `With ${say(people, 6)} people, private answers leave ${words(noisy)}. Honest answers would leave ${words(honest)}.`;
    },
  },

  price: {
    compute({ epsilon }, data) {
      const grid = steps(Math.log(0.25), Math.log(5), 41).map(Math.exp);
      return { price: price(epsilon, data.truth), curve: grid.map((each) => price(each, data.truth)) };
    },
    draw({ price: paid, curve }, { epsilon }) {
      const grid = steps(Math.log(0.25), Math.log(5), 41).map(Math.exp);
      return [
        {
          title: "Private answers that are worth one honest answer",
          height: 320,
          x: { from: 0.25, to: 5, log: true, label: "privacy loss ε", ticks: [0.25, 0.5, 1, 2, 5] },
          y: { from: 1, to: 100, log: true, ticks: [1, 3, 10, 30, 100] },
          marks: [
            { line: grid.map((each, i) => [each, curve[i]]), color: 1 },
            { line: [[epsilon, 1], [epsilon, paid]], color: 0, dash: true },
            { dots: [[epsilon, paid]], color: 2, size: 7 },
            { text: [epsilon * 1.08, paid * 1.12, say(paid, 2)], color: 2 },
          ],
        },
      ];
    },
    say({ price: paid }, { epsilon }) {
      return `At ε = ${say(epsilon)} it takes ${say(paid, 2)} private answers to learn what one honest answer tells: for a study of 1,000 people, about ${say(1000 * Number(paid.toPrecision(2)), 6)} people.`;
    },
  },
};
