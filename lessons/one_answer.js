// The pictures of lesson 1. `compute` has the same numbers as the functions in one_answer.py.

function beliefAfter(prior, factor) {
  return (prior * factor) / (prior * factor + 1 - prior);
}

/** The odds of a probability as people say them, such as 1 : 9, and after they are multiplied by a factor. */
function oddsInWords(prior, factor) {
  const [first, second] = prior < 0.5 ? [1, (1 - prior) / prior] : [prior / (1 - prior), 1];
  return `${say(first)} : ${say(second)} to ${say(first * factor)} : ${say(second)}`;
}

const pictures = {
  lens: {
    compute({ epsilon, prior }) {
      const factor = Math.exp(epsilon);
      const grid = steps(0, 1, 41);
      return {
        factor,
        yes: beliefAfter(prior / 100, factor),
        no: beliefAfter(prior / 100, 1 / factor),
        upper: grid.map((each) => beliefAfter(each, factor)),
        lower: grid.map((each) => beliefAfter(each, 1 / factor)),
      };
    },
    draw({ yes, no, upper, lower }, { prior }) {
      const grid = steps(0, 1, 41);
      const p = prior / 100;
      const axis = { from: 0, to: 1, percent: true, ticks: [0, 0.25, 0.5, 0.75, 1] };
      return [
        {
          title: "What you believe after an answer",
          height: 330,
          x: { ...axis, label: "belief before" },
          y: { ...axis, label: "belief after" },
          marks: [
            { area: grid.map((each, i) => [each, lower[i], upper[i]]), color: 1 },
            { line: grid.map((each, i) => [each, upper[i]]), color: 2, label: "after “yes”" },
            { line: grid.map((each, i) => [each, lower[i]]), color: 1, label: "after “no”" },
            { line: [[0, 0], [1, 1]], color: 0, dash: true, label: "nothing heard" },
            { line: [[p, no], [p, yes]], color: 0 },
            { dots: [[p, yes]], color: 2, size: 7 },
            { dots: [[p, p]], color: 0, size: 5 },
            { dots: [[p, no]], color: 1, size: 7 },
          ],
        },
        {
          title: "Your belief that the person cheated",
          height: 330,
          x: { names: ["before", "after “yes”", "after “no”"] },
          y: { ...axis },
          marks: [
            { bars: columns([p, yes, no]), colors: [0, 2, 1] },
            ...[p, yes, no].map((value, i) => ({ text: [i, Math.min(value + 0.025, 0.95), percent(value)], anchor: "middle", color: value > 0.9 ? 9 : [0, 2, 1][i] })),
          ],
        },
      ];
    },
    say({ factor, yes, no }, { prior }) {
      const p = prior / 100;
      return `A “yes” multiplies the odds by ${say(factor)}: from ${oddsInWords(p, factor)}. You believed ${prior} %, now you believe ${percent(yes)}. After a “no” it would be ${percent(no)}.`;
    },
  },

  table: {
    compute({ epsilon, k }) {
      const truth = Math.exp(epsilon) / (Math.exp(epsilon) + k - 1);
      const other = (1 - truth) / (k - 1);
      const matrix = Array.from({ length: k }, (_, i) => Array.from({ length: k }, (_, j) => (i === j ? truth : other)));
      return { matrix, truth, other };
    },
    draw({ matrix }, { k }) {
      const names = k === 2 ? ["yes", "no"] : ["never", "once", "rarely", "often", "always", "unsure"].slice(0, k);
      return [{ title: "How likely is each answer (row) for each truth (column)?", rows: names, columns: names, values: matrix, framed: [[0, 0], [0, 1]], above: "the truth", format: (each) => percent(each) }];
    },
    say({ truth, other }, { k }) {
      return `With ${k} possible answers, a device says the truth ${percent(truth)} of the time, and each other answer ${percent(other)}. The ratio of the two framed numbers is ${say(truth / other)}.`;
    },
  },
};
