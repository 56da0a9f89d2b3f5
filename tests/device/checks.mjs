// Runs a module of the device on what tests hand in, and prints what it did as JSON.
const [modulePath] = process.argv.slice(2);
const given = JSON.parse(await new Response(process.stdin).text());
const device = await import(modulePath);

const attempt = (run) => {
  try {
    return run();
  } catch (problem) {
    return { problem: `${problem.name}: ${problem.message}` };
  }
};
const plain = (_, value) => (typeof value === "bigint" ? String(value) : value);
const read = (text, epsilon) => device.readQuestion(text, { epsilon });
const questions = given.questions.map((text) => attempt(() => read(text, given.epsilon)));

/** The same words, through what pages call: by the entropy that the system is said to have. */
function production(question, x, words) {
  let used = 0;
  let kept = [];
  const true_ = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  const getRandomValues = (buffer) => (kept = buffer).map((_, i, whole) => (whole[i] = words[used++] ?? 0));
  Object.defineProperty(globalThis, "crypto", { configurable: true, value: { getRandomValues } });
  try {
    const answer = question.privatize(x);
    if (kept.some((word) => word !== 0)) {
      throw new Error("The words of the system are left in memory.");
    }
    return answer;
  } finally {
    Object.defineProperty(globalThis, "crypto", true_);
  }
}

/** Count the answers of so many draws, category after category. */
function counted(question, draws) {
  const counts = question.categories.map(() => ({}));
  for (let i = 0; i < draws; i += 1) {
    const x = i % counts.length;
    const answer = JSON.stringify(question.privatize(x));
    counts[x][answer] = (counts[x][answer] ?? 0) + 1;
  }
  return counts;
}

const result = {
  problems: questions.map((question) => question.problem ?? null),
  weights: given.weights ? questions.map((question) => attempt(() => question.weights())) : null,
  audits: questions.map((question) => question.audit ?? null),
  shown: questions.map((q) => (q.problem ? null : { number: q.number, categories: q.categories, subset: q.subset })),
  odds: questions.map((question) => attempt(() => question.odds())),
  vectors: (given.vectors ?? []).map(({ question, x, words }) =>
    attempt(() => device.testVector(questions[question], x, words))),
  production: (given.vectors ?? []).map(({ question, x, words }) =>
    attempt(() => production(questions[question], x, words))),
  refused: (given.refused ?? []).map(([text, epsilon]) => attempt(() => (read(text, epsilon), "read"))),
  misused: given.misuse ? misuse(questions[0]) : null,
  counts: given.draws ? questions.map((question) => attempt(() => counted(question, given.draws))) : null,
  rows: given.rows ? questions.map((question) => question.categories.map((_, x) => {
    const answer = question.privatize(x);
    return { answer, row: question.row(answer), odds: question.odds(answer) };
  })) : null,
};
process.stdout.write(JSON.stringify(result, plain));

function misuse(question) {
  const calls = [[], [7], [-1], [1.5], ["1"], [null], [[1]], [1n], [NaN], [1, []], [1, { words: [] }]];
  return {
    calls: calls.map((call) => attempt(() => question.privatize(...call))),
    strict: attempt(() => {
      "use strict";
      question.epsilon = 30;
    }),
    keys: Object.keys(question),
  };
}
