// The pictures of lesson 6. `compute` has the same numbers as the functions in is_it_right.py.

const LENGTHS = [20, 50, 100, 200, 500];
const [PEOPLE, CELLS, BINS, EPSILON] = [300, 400, 10, 1];
const GRID = Array.from({ length: CELLS }, (_, i) => (i + 0.5) / CELLS);

function yesProbability(share, epsilon) {
  const low = 1 / (Math.exp(epsilon) + 1);
  return low + (1 - 2 * low) * share;
}

/** The posterior of a share on the grid, flat prior, for a number of “yes” among 300 answers. */
function posterior(yes, logs) {
  const values = logs.map(([h, rest]) => yes * h + (PEOPLE - yes) * rest);
  const top = Math.max(...values);
  const mass = values.map((value) => Math.exp(value - top));
  const total = sum(mass);
  return mass.map((each) => each / total);
}

const logsOf = (shares, epsilon) => shares.map((share) => yesProbability(share, epsilon)).map((h) => [Math.log(h), Math.log1p(-h)]);

function calibration(assumed) {
  const logs = logsOf(GRID, assumed);
  const truths = logsOf(GRID, EPSILON);
  const bins = Array(BINS).fill(0);
  let covered = 0;
  let chance = 0; // ln of the binomial coefficient
  for (let yes = 0; yes <= PEOPLE; yes += 1) {
    if (yes) chance += Math.log((PEOPLE - yes + 1) / yes);
    const mass = posterior(yes, logs);
    let below = 0;
    mass.forEach((each, i) => {
      const rank = below + each / 2;
      below += each;
      const weight = Math.exp(chance + yes * truths[i][0] + (PEOPLE - yes) * truths[i][1]) / CELLS;
      bins[Math.min(Math.floor(rank * BINS), BINS - 1)] += weight;
      if (rank > 0.025 && rank < 0.975) covered += weight;
    });
  }
  const estimates = steps(0, 1, 11).map((truth) => {
    const mass = posterior(PEOPLE * yesProbability(truth, EPSILON), logs);
    return sum(mass.map((each, i) => each * GRID[i]));
  });
  return { bins, covered, estimates };
}

const pictures = {
  traces: {
    compute({ sampler, draws }, data) {
      const of = data[sampler];
      const place = LENGTHS.indexOf(draws);
      return { chains: of.chains.map((chain) => chain.slice(0, draws).map((value) => value / 10000)), r_hat: of.r_hat[place], effective: of.effective[place] };
    },
    draw({ chains, r_hat: rHat, effective }, { draws }) {
      const all = chains.flat();
      return [{
        title: `R-hat ${rHat.toFixed(2)}, ESS ${say(Math.round(effective), 6)} of ${say(4 * draws, 6)} draws`,
        height: 320,
        x: { from: 0, to: draws, label: "draw" },
        y: { from: Math.min(0.4, ...all), to: Math.max(0.8, ...all), percent: true, label: "share of “never”" },
        marks: chains.map((chain, i) => ({ line: chain.map((value, j) => [j, value]), color: i + 1, label: `chain ${i + 1}` })),
      }];
    },
    say({ r_hat: rHat, effective }, { sampler, draws }) {
      return `${sampler}: R-hat is ${rHat.toFixed(2)}, and ${say(4 * draws, 6)} draws are worth ${say(effective)} independent ones. The chains ${rHat < 1.05 ? "agree" : "do not agree"}.`;
    },
  },

  ranks: {
    compute: ({ assumed }) => calibration(assumed),
    draw({ bins, estimates }, { assumed }) {
      const wrong = assumed !== EPSILON;
      const axis = { from: 0, to: 1, percent: true, ticks: [0, 0.25, 0.5, 0.75, 1] };
      return [
        {
          title: "Where the truth falls in the posterior",
          height: 320,
          x: { ...axis, label: "rank of the truth" },
          y: { from: 0, to: 0.5, percent: true, label: "of all cases" },
          marks: [
            { bars: bins.map((each, i) => [i / BINS + 0.005, (i + 1) / BINS - 0.005, each]), color: wrong ? 2 : 1 },
            { rule: { y: 0.1 }, color: 0, dash: true, label: "if all is right" },
          ],
        },
        {
          title: "The estimate for each truth",
          height: 320,
          x: { ...axis, label: "true share" },
          y: { ...axis, label: "estimate" },
          marks: [
            { line: [[0, 0], [1, 1]], color: 0, dash: true, label: "right" },
            { line: estimates.map((each, i) => [i / 10, each]), color: wrong ? 2 : 1 },
            { dots: estimates.map((each, i) => [i / 10, each]), color: wrong ? 2 : 1, label: `assuming ε = ${assumed}` },
          ],
        },
      ];
    },
    say({ covered, estimates }, { assumed }) {
      const how = assumed > EPSILON ? "Estimates are pulled towards one half" : assumed < EPSILON ? "Estimates are pushed outwards" : "Estimates follow the truth";
      return `Assuming ε = ${assumed}, a 95 % interval contains the truth in ${percent(covered)} of cases. ${how}: a true share of 70 % is estimated as ${percent(estimates[7])}.`;
    },
  },
};
