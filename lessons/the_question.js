// The pictures of lesson 4. `compute` has the same numbers as the functions in the_question.py.

const OPTIONS = [2, 3, 4, 6, 10, 20, 50, 100];

/** How many answers with sets of this size tell as much as one honest answer. */
function peopleFor(k, epsilon, size) {
  const e = Math.exp(epsilon);
  return ((k - 1) * (size * e + k - size) ** 2) / (size * (k - size) * (e - 1) ** 2);
}

function contains(k, epsilon, size) {
  const e = Math.exp(epsilon);
  return (size * e) / (size * e + k - size);
}

/** The tenths above and below the values of a log axis. */
const powersAround = (values) => ({ from: 10 ** Math.floor(Math.log10(Math.min(...values) + 1e-9)), to: 10 ** Math.ceil(Math.log10(Math.max(...values))) });

const pictures = {
  price: {
    compute({ epsilon }) {
      return { people: OPTIONS.map((k) => peopleFor(k, epsilon, 1)), true: OPTIONS.map((k) => contains(k, epsilon, 1)) };
    },
    draw({ people }) {
      const points = OPTIONS.map((k, i) => [k, people[i]]);
      return [{
        title: "Randomized response: people who tell as much as one honest person",
        x: { from: 1.8, to: 120, log: true, ticks: [2, 5, 10, 20, 50, 100], label: "options" },
        y: { from: 1, to: 100000, log: true, label: "people" },
        marks: [{ line: points, color: 1 }, { dots: points, color: 1 }],
      }];
    },
    say({ people, true: truths }, { epsilon }) {
      return `At ε = ${epsilon}, one honest answer is worth ${say(people[0])} private ones with 2 options and ${say(people[6])} with 50, where an answer is the truth in ${percent(truths[6])} of cases.`;
    },
  },

  sets: {
    compute({ epsilon, k }) {
      const people = Array.from({ length: k - 1 }, (_, i) => peopleFor(k, epsilon, i + 1));
      const best = people.findIndex((each) => each <= Math.min(...people) * (1 + 1e-12)) + 1;
      return { people, best, contains: contains(k, epsilon, best) };
    },
    draw({ people, best }, { k }) {
      const wide = Math.ceil(Math.sqrt(k));
      const place = (i) => [i % wide, -Math.floor(i / wide)];
      const truth = Math.floor(k / 3);
      const members = new Set([truth]);
      for (let i = 0; members.size < best; i += 1) members.add((truth + 1 + i * 7) % k); // an example, spread over the options
      for (let i = 0; members.size < best; i += 1) members.add(i);
      const chosen = Array.from({ length: k }, (_, i) => i);
      const rows = Math.ceil(k / wide);
      const dot = k > 20 ? 8 : 12;
      return [
        {
          title: `One answer: ${best} of ${k} options`,
          x: { from: -0.7, to: wide - 0.3, ticks: [] },
          y: { from: -rows + 0.3, to: 0.7, ticks: [] },
          marks: [
            { dots: chosen.filter((i) => !members.has(i)).map(place), color: 0, hollow: true, size: dot, label: "not named" },
            { dots: chosen.filter((i) => members.has(i) && i !== truth).map(place), color: 1, size: dot, label: "named" },
            { dots: [place(truth)], color: 2, size: dot, label: "named, and the truth" },
          ],
        },
        {
          title: "People who tell as much as one honest person",
          x: k > 2 ? { from: 0.9, to: Math.max(3, k - 1), log: true, ticks: [1, 2, 5, 10, 20, 50].filter((each) => each < k), label: "size of the set" } : { from: 0.5, to: 1.5, ticks: [1], label: "size of the set" },
          y: { ...powersAround(people), log: true, label: "people" },
          marks: [
            { line: people.map((each, i) => [i + 1, each]), color: 1 },
            { dots: [[1, people[0]]], color: 0, size: 6, label: "randomized response" },
            { dots: [[best, people[best - 1]]], color: 2, size: 7, label: "the best sets" },
          ],
        },
      ];
    },
    say({ people, best, contains: often }, { k }) {
      if (best === 1) return `With ${k} options the best set has one member: randomized response. One honest answer is worth ${say(people[0])} of its answers.`;
      return `Of ${k} options the best sets name ${best}, and contain the truth in ${percent(often)} of cases. One honest answer is worth ${say(people[best - 1])} of them, and ${say(people[0])} of randomized response.`;
    },
  },
};
