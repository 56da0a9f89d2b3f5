// The picture of lesson 3: the table of a mechanism, and what its worst answer reveals.

const NAMES = ["A", "B", "C", "D"];
const KAPPA = 0.9;
const PAIRS = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
const LISTS = PAIRS.flatMap(([a, b]) => [[a, b], [b, a]]);

/** RRRR on four categories with the subset A, B: the table in section 1 of docs/math.md. */
function tableOfRRRR(epsilon, second) {
  const [e1, e2] = [Math.exp(KAPPA * epsilon), Math.exp(second)];
  const [inner, outer] = [1 / (e1 + 2), e1 / (e1 + 2) / (e2 + 1)];
  return NAMES.map((_, y) => NAMES.map((_, x) => {
    if (y < 2) return x === y ? e1 * inner : inner;
    if (x < 2) return inner / 2;
    return x === y ? e2 * outer : outer;
  }));
}

function tableOf(mechanism, epsilon) {
  const e = Math.exp(epsilon);
  const inside = (2 * e) / (2 * e + 2); // how often a set of two contains the truth
  const leaked = 1 / (2 * Math.exp((KAPPA - 1) * epsilon) - 1); // e^ε₂, before it is bounded by e^ε
  if (mechanism === "randomized response") return NAMES.map((_, y) => NAMES.map((_, x) => (x === y ? e : 1) / (e + 3)));
  if (mechanism === "sets of two") return PAIRS.map((pair) => NAMES.map((_, x) => (pair.includes(x) ? inside : 1 - inside) / 3));
  if (mechanism === "sets of two, truth first") return LISTS.map(([first, other]) => NAMES.map((_, x) => (x === first ? inside / 3 : x === other ? 0 : (1 - inside) / 6)));
  const bounded = (1 - KAPPA) * epsilon < Math.log(2);
  if (mechanism === "RRRR, as proved") return tableOfRRRR(epsilon, bounded ? Math.min(epsilon, Math.log(leaked)) : epsilon);
  return tableOfRRRR(epsilon, bounded ? Math.min(epsilon, leaked) : epsilon);
}

const rowNames = (mechanism) => (mechanism === "sets of two" ? PAIRS : mechanism === "sets of two, truth first" ? LISTS : NAMES.map((_, i) => [i])).map((row) => row.map((x) => NAMES[x]).join(", "));
const holds = (loss, epsilon) => loss !== null && loss <= epsilon + 1e-9;

const pictures = {
  audit: {
    compute({ mechanism, epsilon }) {
      const table = tableOf(mechanism, epsilon);
      const ratios = table.map((row) => Math.max(...row) / Math.min(...row));
      const largest = Math.max(...ratios);
      const y = ratios.findIndex((ratio) => ratio >= largest * (1 - 1e-9));
      const row = table[y];
      return {
        table,
        loss: Number.isFinite(largest) ? Math.log(largest) : null,
        worst: [y, row.indexOf(Math.max(...row)), row.indexOf(Math.min(...row))],
        belief: row.map((value) => value / sum(row)),
      };
    },
    draw({ table, loss, worst: [y, x, other], belief }, { mechanism, epsilon }) {
      const rows = rowNames(mechanism);
      return [
        { title: `P(answer | truth)`, rows, columns: NAMES, values: table, framed: [[y, x], [y, other]], above: "the truth", beside: "the answer" },
        {
          title: `Belief after the answer “${rows[y]}”`,
          x: { names: NAMES },
          y: { from: 0, to: 1, percent: true },
          marks: [
            { bars: columns(belief), color: holds(loss, epsilon) ? 1 : 2 },
            { rule: { y: 0.25 }, color: 0, dash: true, label: "before" },
          ],
        },
      ];
    },
    say({ loss }, { mechanism, epsilon }) {
      const verdict = holds(loss, epsilon) ? "holds" : "is broken";
      return `The promise ε = ${epsilon} ${verdict}: the loss of ${mechanism} is ${loss === null ? "infinite" : say(loss)}.`;
    },
  },
};
