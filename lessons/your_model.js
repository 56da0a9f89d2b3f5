// The pictures of lesson 7. `compute` has the same numbers as the functions in your_model.py.

const pictures = {
  products: {
    compute({ epsilon, n }, data) {
      const of = (prior) => {
        const [mean, low, high] = data.products[`${prior}_${epsilon}_${n}`];
        return mean.map((each, i) => [each, low[i], high[i]]);
      };
      const empty = (rows) => sum(rows.map(([mean]) => mean)) - sum(Object.keys(data.held).map((i) => rows[i][0]));
      const [flat, learned] = [of("flat"), of("learned")];
      return { flat, learned, spilled: [empty(flat), empty(learned)], truth: data.held };
    },
    draw({ flat, learned, spilled, truth }) {
      const panel = (title, rows, share, color) => ({
        title: `${title}: ${percent(share)} to empty products`,
        height: 300,
        x: { from: -0.7, to: 29.7, ticks: [0, 10, 20, 29], format: (i) => String(i + 1), label: "product" },
        y: { from: 0, to: 0.5, percent: true, label: "share" },
        marks: [
          { ranges: rows.map(([mean, low, high], i) => [i, low, high, mean]), color, size: 3, label: "estimate, 95 % interval" },
          { dots: Object.entries(truth).map(([i, share]) => [Number(i), share]), color: 0, hollow: true, size: 6, label: "truth, where it is not 0" },
        ],
      });
      return [panel("Flat prior", flat, spilled[0], 2), panel("Learned prior", learned, spilled[1], 1)];
    },
    say({ spilled }, { epsilon, n }) {
      return `${say(n, 6)} people at ε = ${epsilon}: the flat prior gives ${percent(spilled[0])} of the people to products that nobody holds, the learned prior ${percent(spilled[1])}.`;
    },
  },

  regions: {
    compute({ epsilon, n }, data) {
      const { alone, pooled } = data.regions[`${epsilon}_${n}`];
      return { alone, pooled, truth: data.region_truth, narrower: alone.map(([, low, high], i) => (pooled[i][2] - pooled[i][1]) / (high - low)) };
    },
    draw({ alone, pooled, truth }) {
      const ranges = (rows, offset) => rows.map(([mean, low, high], i) => [i + offset, low, high, mean]);
      return [{
        title: "Share of “yes”, with 95 % intervals",
        height: 320,
        x: { from: 0, to: 1, percent: true, label: "share of “yes”" },
        y: { names: Object.keys(truth) },
        marks: [
          { ranges: ranges(alone, -0.16), across: true, color: 2, label: "from its own answers" },
          { ranges: ranges(pooled, 0.16), across: true, color: 1, label: "pooled" },
          { dots: Object.values(truth).map((share, i) => [share, i]), color: 0, hollow: true, size: 6, label: "truth" },
        ],
      }];
    },
    say({ alone, pooled, narrower }, { epsilon, n }) {
      const interval = ([, low, high]) => `${percent(low)} to ${percent(high)}`;
      return `${say(n, 6)} people at ε = ${epsilon}: the islands have ${interval(alone[4])} from their own answers and ${interval(pooled[4])} pooled, ${say(narrower[4], 2)} times as wide.`;
    },
  },
};
