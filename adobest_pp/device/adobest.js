/**
 * The device of adobest_pp in the browser and in Node: it randomizes an answer before anything is sent.
 *
 *     import { readQuestion } from "./adobest.js";
 *     const question = readQuestion(text, { epsilon: 1 });  // what the collector published, what the person agreed to
 *     const answer = question.privatize(2);                 // send this, and nothing else
 *
 * `readQuestion` audits the published integers in exact arithmetic and throws if they do not keep the agreed ε.
 * `privatize` draws with exactly those probabilities, from `crypto.getRandomValues`. It stores nothing.
 *
 * A probability is a ratio of two integers: `UNIT` stands for 1, and the published odds, in the same unit, for e^ε. The
 * draws are those of the Python package, word for word of randomness. They take the same number of words and the same
 * steps for every category. Nobody can promise that the compiler of a browser makes these steps equally long.
 *
 * MIT License. No dependencies.
 */

const UNIT = 1n << 64n;

// The bounds of `read_question` in Python. Within them, reading, auditing and answering take less than a second.
const MAX_TEXT = 1_000_000;
const MAX_ASKED = 20_000;
const MAX_WITH_SUBSET = 5_000;
const MAX_TABLE = 300_000;
const MAX_DEPTH = 16;
const MAX_DIGITS = 40;
const MAX_WEIGHT = 1n << 128n;
const MAX_EPSILON = 30;
const MAX_LABEL = 500;
const MAX_OUTPUTS = 20_000;
const MAX_ORDER = 2 ** 20;
const MAX_POINTS = 2 ** 24;
const MAX_HASHES = 2 ** 20;
const MAX_VALUES = 2 ** 16;
const MAX_DRAWS = 100; // cards of Kuk's design

// Fields whose order is a power of a prime: the prime, and an irreducible polynomial, its coefficients as digits.
const POLYNOMIALS = { 4: [2, 7], 8: [2, 11], 9: [3, 10], 16: [2, 19], 25: [5, 27], 27: [3, 34], 32: [2, 37] };

/** How a question draws, for `testVector` only: pages cannot reach it through a question. */
const DRAWS = new WeakMap();

/**
 * Read a published question, or throw an error with one sentence; nothing must be answered then.
 *
 * @param {string} text The JSON text that the collector published.
 * @param {{epsilon: number}} agreed The budget that the person has agreed to.
 * @returns a frozen object: `number`, `mechanism`, `categories`, `epsilon`, `subset`, `audit`, `privatize(x)`,
 *   `odds()`, `odds(answer)`, `row(answer)` and `weights()`.
 */
export function readQuestion(text, { epsilon } = {}) {
  refuseIf(typeof epsilon !== "number" || !(epsilon > 0 && epsilon <= MAX_EPSILON),
    `epsilon must be a number above 0 and at most ${MAX_EPSILON}: what the person agreed to.`, RangeError);
  const content = parse(text);
  const settings = content?.question;
  refuseIf(!isObject(content) || !isObject(settings),
    "The text must be a JSON object with number, question, categories and odds.");
  const build = Object.hasOwn(MECHANISMS, settings.mechanism) ? MECHANISMS[settings.mechanism] : null;
  refuseIf(build === null, `The question must use one of ${Object.keys(MECHANISMS).join(", ")}.`);
  const number = integer(content.number, "number", 0, Number.MAX_SAFE_INTEGER);
  const promise = settings.epsilon;
  refuseIf(typeof promise !== "number" || !(promise > 0), "The question must state its epsilon, a positive number.");
  refuseIf(promise > epsilon,
    `The question must have an epsilon of at most ${epsilon}, got ${promise}.`, RangeError);
  const categories = Object.freeze(checkLabels(content.categories));
  const odds = list(content.odds, "odds").map((each) => positive(each, "odds", UNIT));
  const mechanism = build(settings, odds, categories.length, content.subset);
  const audit = auditOf(mechanism, promise, categories);

  const checkAnswer = (answer) =>
    refuseIf(!mechanism.isAnswer(answer), "answer must be a possible answer to this question.", RangeError);
  const question = Object.freeze({
    number,
    mechanism: settings.mechanism,
    categories,
    epsilon: promise,
    subset: mechanism.subset ? Object.freeze([...mechanism.subset]) : null,
    audit,

    /** Return the randomized answer of a person whose category is x, 0 … K−1, from the system's entropy. */
    privatize(x) {
      refuseIf(arguments.length !== 1, "privatize takes the number of a category and nothing else.", TypeError);
      return draw(mechanism, x, systemEntropy());
    },

    /**
     * Without an answer, return for each category how likely an answer is to name it if it is the truth (`named`), and
     * the smallest and largest such probability if another category is (`otherwise`). With an answer, return for each
     * category how likely it is to give that answer (`probability`), and the ratio to the least likely (`odds`), which
     * is at most e^ε.
     */
    odds(answer) {
      if (answer === undefined) {
        return categories.map((category, x) => ({ category, ...mechanism.naming(x) }));
      }
      checkAnswer(answer);
      const shares = categories.map((_, x) => quotient(mechanism.weight(answer, x), mechanism.total(x)));
      const least = Math.min(...shares);
      return categories.map((category, x) => ({ category, probability: shares[x], odds: shares[x] / least }));
    },

    /** Return an answer as the columns of a CSV file that `adobest_pp.gather` reads, each as text. */
    row(answer) {
      checkAnswer(answer);
      const bits = (members) => categories.map((_, x) => (members.includes(x) ? "1" : "0")).join("");
      const row = { answer: Array.isArray(answer) ? bits(answer) : String(answer) };
      return mechanism.subset ? { ...row, subset: bits(mechanism.subset) } : row;
    },

    /** Return every integer weight W[answer][category], the table that is audited, if there are few answers. */
    weights() {
      return mechanism.outputs().map((answer) => categories.map((_, x) => mechanism.weight(answer, x)));
    },
  });
  DRAWS.set(question, (x, words) => draw(mechanism, x, words));
  return question;
}

/**
 * Answer with given words of 32 bits in place of entropy. For test vectors only: such an answer protects nobody.
 *
 * @param question What `readQuestion` returned.
 * @param {number} x A category.
 * @param {Iterable<number>} words The words, the lower half of each 64 bits first.
 */
export function testVector(question, x, words) {
  const given = words[Symbol.iterator]();
  const fill = (buffer) => {
    for (let i = 0; i < buffer.length; i += 1) {
      const next = given.next();
      // Words that are fetched ahead but not used may be missing.
      buffer[i] = next.done ? 0 : next.value;
    }
  };
  return DRAWS.get(question)(x, new Words(fill));
}

// ------------------------------------------------------------------------------------------------ exact arithmetic

/** Return an integer E with E / 2²⁵⁶ at most e^ε, and a relative error below 2⁻²³⁰. Every step rounds down. */
function expLowerBound(epsilon) {
  let [mantissa, shift] = [epsilon, 0n];
  while (!Number.isInteger(mantissa)) {
    [mantissa, shift] = [mantissa * 2, shift + 1n]; // exact: a double is an integer over a power of two
  }
  const one = 1n << 256n;
  const halvings = 16n;
  const small = (BigInt(mantissa) * one) >> (shift + halvings);
  let [sum, term] = [one, one];
  for (let i = 1n; term > 0n; i += 1n) {
    term = (term * small) / (i * one);
    sum += term;
  }
  for (let i = 0n; i < halvings; i += 1n) {
    sum = (sum * sum) >> 256n;
  }
  return sum;
}

/** Return the exact loss of a mechanism, or throw RangeError if it is above its promise. */
function auditOf(mechanism, epsilon, categories) {
  const [top, bottom, x, other] = mechanism.worst();
  if (top << 256n > expLowerBound(epsilon) * bottom) {
    throw new RangeError(
      `The question must keep ε = ${epsilon}, got a privacy loss of ${logQuotient(top, bottom).toPrecision(6)} between ` +
        `${JSON.stringify(categories[x])} and ${JSON.stringify(categories[other])}.`,
    );
  }
  const divisor = gcd(top, bottom);
  return Object.freeze({
    numerator: top / divisor,
    denominator: bottom / divisor,
    loss: logQuotient(top, bottom),
    epsilon,
    between: Object.freeze([x, other]),
  });
}

function gcd(a, b) {
  while (b > 0n) {
    [a, b] = [b, a % b];
  }
  return a;
}

/** Return one of the doubles nearest to top / bottom. */
function quotient(top, bottom) {
  const length = (value) => value.toString(16).length * 4;
  const shift = BigInt(length(bottom) - length(top) + 64);
  const scaled = shift >= 0n ? (top << shift) / bottom : top / (bottom << -shift);
  return Number(scaled) * 2 ** -Number(shift);
}

function logQuotient(top, bottom) {
  return Math.log1p(quotient(top - bottom, bottom));
}

function binomial(n, k) {
  let result = 1n;
  for (let i = 1n; i <= BigInt(k); i += 1n) {
    result = (result * (BigInt(n) - i + 1n)) / i;
  }
  return result;
}

const ONE = [1n, 1n]; // fractions are pairs [top, bottom]

function minus([a, b], [c, d]) {
  return [a * d - c * b, b * d];
}

function times([a, b], [c, d]) {
  return [a * c, b * d];
}

function reduced([top, bottom]) {
  const divisor = gcd(bottom, top);
  return [top / divisor, bottom / divisor];
}

// ------------------------------------------------------------------------------------------------ exact randomness

/** Words of 64 bits from a function that fills a Uint32Array. */
class Words {
  #buffer = new Uint32Array(128);
  #used = 128;
  #fill;

  constructor(fill) {
    this.#fill = fill;
  }

  /** Return the next word as its lower and its upper half. */
  halves() {
    if (this.#used === this.#buffer.length) {
      this.#fill(this.#buffer);
      this.#used = 0;
    }
    this.#used += 2;
    return [this.#buffer[this.#used - 2], this.#buffer[this.#used - 1]];
  }

  next() {
    const [low, high] = this.halves();
    return (BigInt(high) << 32n) | BigInt(low);
  }

  /** Erase the words: together with the answer, they would reveal x. */
  clear() {
    this.#buffer.fill(0);
    this.#used = this.#buffer.length;
  }
}

function systemEntropy() {
  const source = globalThis.crypto;
  if (typeof source?.getRandomValues !== "function") {
    throw new Error("This browser has no crypto.getRandomValues, so nothing can be answered privately.");
  }
  return new Words((buffer) => source.getRandomValues(buffer));
}

function draw(mechanism, x, words) {
  refuseIf(!isCode(mechanism.k)(x),
    `x must be a category number from 0 to ${mechanism.k - 1} (its value is not shown).`, RangeError);
  try {
    return mechanism.draw(x, words);
  } finally {
    words.clear();
  }
}

/** Return true with probability exactly weight/total. More than 64 binary digits are needed with probability 2⁻⁶⁴. */
function bernoulli(words, weight, total) {
  let rest = weight;
  while (rest < total) {
    const threshold = (rest << 64n) / total;
    const word = words.next();
    if (word !== threshold) {
      return word < threshold;
    }
    rest = (rest << 64n) % total;
  }
  return true;
}

/** Draw an exactly uniform integer from 0 to bound−1. Words from the last whole multiple of the bound on are redrawn. */
function below(words, bound) {
  const size = BigInt(bound);
  const limit = UNIT - (UNIT % size);
  let word = words.next();
  while (word >= limit) {
    word = words.next();
  }
  return Number(word % size);
}

/** Randomized response on 0 … size−1, with odds keep : UNIT for the truth against any other. */
function randomizedResponse(words, position, size, keep) {
  if (size === 1) {
    return position;
  }
  const kept = bernoulli(words, keep, keep + BigInt(size - 1) * UNIT);
  const other = (position + 1 + below(words, size - 1)) % size;
  return pick(kept, position, other);
}

/** Draw a uniform subset of `size` out of `population`, as an array of 0 and 1 (Floyd's algorithm). */
function uniformSubset(words, population, size) {
  const mask = new Uint8Array(population);
  for (let j = population - size; j < population; j += 1) {
    const candidate = below(words, j + 1);
    mask[mask[candidate] === 1 ? j : candidate] = 1;
  }
  return mask;
}

/** Return one of two integers without a branch. */
function pick(condition, yes, no) {
  const bit = Number(condition);
  return bit * yes + (1 - bit) * no;
}

// ------------------------------------------------------------------------------------------------ mechanisms
// Each has k categories. P(answer | x) is `weight(answer, x)` over `total(x)`. `worst()` returns the largest ratio of two
// probabilities of one answer as [top, bottom, x, x′], `naming(x)` what `odds()` shows people, and `draw(x, words)` an
// answer.

const MECHANISMS = {
  CountMeanSketch: countMeanSketch,
  Crosswise: yesNo(({ p }) => [minus(ONE, p), p], ["p"]),
  ForcedResponse: yesNo((s) => [s.forced_yes, minus(ONE, s.forced_no)], ["forced_yes", "forced_no"]),
  HadamardResponse: hadamardResponse,
  Kuk: yesNo((s) => [s.red_no, s.red_yes], ["red_yes", "red_no"]),
  ProjectiveGeometryResponse: projectiveGeometryResponse,
  RRRR: rrrr,
  SetFamily: setFamily,
  SRR: srr,
  SubsetSelection: subsetSelection,
  UnrelatedQuestion: yesNo(({ p, share }) => {
    const innocuous = times(minus(ONE, p), share);
    return [innocuous, minus(ONE, times(minus(ONE, p), minus(ONE, share)))];
  }, ["p", "share"]),
  Warner: yesNo(({ p }) => [minus(ONE, p), p], ["p"]),
};

/** Standard randomized response: the answer is a category. */
function srr(settings, odds, k, subset) {
  const [keep] = checkShape(settings, odds, 1, k, subset);
  const total = keep + BigInt(k - 1) * UNIT;
  return {
    k,
    ...numbered(k),
    weight: (y, x) => (y === x ? keep : UNIT),
    total: () => total,
    worst: () => [keep, UNIT, 0, 1],
    naming: () => named(quotient(keep, total), quotient(UNIT, total)),
    draw: (x, words) => randomizedResponse(words, x, k, keep),
  };
}

/** Subset selection: the answer is a set of `size` categories, in increasing order, so that the order reveals nothing. */
function subsetSelection(settings, odds, k, subset) {
  const [keep] = checkShape(settings, odds, 1, k, subset);
  const size = integer(settings.size, "size", 1, k - 1);
  const inside = BigInt(size) * keep;
  const whole = inside + BigInt(k - size) * UNIT;
  let total;
  return {
    k,
    isAnswer: (z) => Array.isArray(z) && z.length === size && z.every((y, i) => isCode(k)(y) && !(z[i - 1] >= y)),
    outputs: () => combinations(k, size),
    weight: (z, x) => (z.includes(x) ? keep : UNIT),
    total: () => (total ??= binomial(k - 1, size - 1) * keep + binomial(k - 1, size) * UNIT),
    worst: () => [keep, UNIT, 0, size],
    naming: () => named(quotient(inside, whole), (size - quotient(inside, whole)) / (k - 1)),
    draw: (x, words) => {
      // Both sizes are drawn for everybody: the time that one takes would reveal whether the set contains the truth.
      const contains = bernoulli(words, inside, whole);
      const [within, without] = [uniformSubset(words, k - 1, size - 1), uniformSubset(words, k - 1, size)];
      const members = new Uint8Array(k);
      for (let y = 0; y < k; y += 1) {
        const place = Math.min(y - Number(y > x), k - 2);
        const other = pick(contains, within[place], without[place]);
        members[y] = pick(y === x, Number(contains), other);
      }
      return codes(k).filter((y) => members[y] === 1);
    },
  };
}

/** Hadamard response: the answer is a column of Sylvester's matrix, likelier where it is +1 in row x+1. */
function hadamardResponse(settings, odds, k, subset) {
  const [keep] = checkShape(settings, odds, 1, k, subset);
  const columns = 2 ** (32 - Math.clz32(k));
  const agree = (x, y) => parity((x + 1) & y) === 0;
  return {
    k,
    ...numbered(columns),
    weight: (y, x) => (agree(x, y) ? keep : UNIT),
    total: () => (keep + UNIT) * BigInt(columns / 2),
    worst: () => [keep, UNIT, 1, 0],
    naming: () => named(quotient(keep, keep + UNIT), 0.5),
    draw: (x, words) => {
      const agrees = bernoulli(words, keep, keep + UNIT);
      const drawn = below(words, columns / 2);
      // All bits of the column are drawn but one, where the row has a 1. It is set so that the column agrees or not.
      const row = x + 1;
      const bit = 31 - Math.clz32(row);
      const low = drawn & ((1 << bit) - 1);
      const column = ((drawn - low) << 1) | low;
      return column | (Number((parity(row & column) === 1) === agrees) << bit);
    },
  };
}

/**
 * Projective geometry response: the answer is a point over the field of q elements, likelier if it is orthogonal to the
 * point of the truth. A point is a vector whose first nonzero coordinate is 1; points are in the order of their digits.
 */
function projectiveGeometryResponse(settings, odds, k, subset) {
  const [keep] = checkShape(settings, odds, 1, k, subset);
  const q = integer(settings.order, "order", 2, MAX_ORDER);
  const { add, multiply, negative, inverse } = fieldOf(q);
  const count = (t) => (q ** Math.max(t, 0) - 1) / (q - 1);
  let t = 2;
  while (count(t) < k) {
    t += 1;
  }
  const [near, far] = [count(t - 1), q ** (t - 1)];
  const inside = BigInt(near) * keep;
  const total = inside + BigInt(far) * UNIT;
  const digits = (number) => Array.from({ length: t }, (_, i) => Math.floor(number / q ** (t - 1 - i)) % q);
  const number = (point) => {
    let size = 0;
    for (let j = 1; j < t; j += 1) {
      size += Number(point >= count(j));
    }
    return point - count(size) + q ** size;
  };
  const dot = (a, b) => a.reduce((sum, each, i) => add(sum, multiply(each, b[i])), 0);
  const leading = (vector) => vector.reduceRight((first, each, i) => pick(each !== 0, i, first), t - 1);
  const points = count(t);
  refuseIf(points > MAX_POINTS, `The order must have a geometry of at most ${MAX_POINTS} points.`);
  const agree = (x, z) => dot(digits(number(x)), digits(number(z))) === 0;
  const both = BigInt(count(t - 2));
  return {
    k,
    ...numbered(points),
    weight: (z, x) => (agree(x, z) ? keep : UNIT),
    total: () => total,
    worst: () => [keep, UNIT, 1, 0],
    naming: () => named(quotient(inside, total), quotient(both * keep + (BigInt(near) - both) * UNIT, total)),
    draw: (x, words) => {
      const isNear = bernoulli(words, inside, total);
      // The first nonzero coordinate of the truth is 1. The other coordinates of the answer are those of a point with
      // one coordinate less, or any; this one then makes the product 0 or 1. Both cases are drawn: equal work for all.
      const [point, vector] = [below(words, near), below(words, far)];
      const truth = digits(number(x));
      const others = digits(pick(isNear, number(point), vector));
      const first = leading(truth);
      const answer = truth.map((_, i) => pick(i === first, 0, others[pick(i < first, i + 1, i) % t]));
      const own = add(1 - Number(isNear), negative(dot(truth, answer)));
      const full = answer.map((each, i) => pick(i === first, own, each));
      const lead = leading(full);
      const factor = inverse(full[lead]);
      const whole = full.reduce((sum, each) => sum * q + multiply(factor, each), 0);
      return whole - q ** (t - 1 - lead) + count(t - 1 - lead);
    },
  };
}

/** The field of q elements: integers modulo a prime, or polynomials modulo an irreducible one, as digits of a number. */
function fieldOf(q) {
  const power = (multiply) => (a) => {
    let result = 1; // a^(q−2), with the same number of products for every a
    for (const bit of (q - 2).toString(2)) {
      result = multiply(result, result);
      result = bit === "1" ? multiply(result, a) : result;
    }
    return result;
  };
  if (!Object.hasOwn(POLYNOMIALS, q)) {
    for (let i = 2; i * i <= q; i += 1) {
      refuseIf(q % i === 0, `The order must be a prime, or ${Object.keys(POLYNOMIALS).join(", ")}.`);
    }
    const multiply = (a, b) => (a * b) % q;
    return { add: (a, b) => (a + b) % q, multiply, negative: (a) => (q - a) % q, inverse: power(multiply) };
  }
  const [prime, polynomial] = POLYNOMIALS[q];
  const digits = (number) => Array.from({ length: 9 }, (_, i) => Math.floor(number / prime ** i) % prime);
  const value = (array) => array.reduceRight((sum, each) => sum * prime + (((each % prime) + prime) % prime), 0);
  const degree = Math.round(Math.log(q) / Math.log(prime));
  const modulus = digits(polynomial);
  const product = (a, b) => {
    const result = new Array(9).fill(0);
    digits(a).slice(0, degree).forEach((c, i) => digits(b).slice(0, degree).forEach((d, j) => { result[i + j] += c * d; }));
    for (let i = 8; i >= degree; i -= 1) {
      for (let j = 0; j < degree; j += 1) {
        result[i - degree + j] -= result[i] * modulus[j];
      }
      result[i] = 0;
    }
    return value(result);
  };
  const table = (of) => codes(q * q).map((i) => of(Math.floor(i / q), i % q));
  const sums = table((a, b) => value(digits(a).map((each, i) => each + digits(b)[i])));
  const products = table(product);
  const multiply = (a, b) => products[a * q + b];
  const minus = sums.indexOf(0, q) - q; // what 1 adds to 0
  return { add: (a, b) => sums[a * q + b], multiply, negative: (a) => multiply(minus, a), inverse: power(multiply) };
}

/** Count-mean sketch: randomized response on one of k hashes into g values. The answer is hash · g + value. */
function countMeanSketch(settings, odds, k, subset) {
  const [keep] = checkShape(settings, odds, 1, k, subset);
  const count = integer(settings.n_hashes, "n_hashes", 1, MAX_HASHES);
  const g = integer(settings.n_values, "n_values", 2, MAX_VALUES);
  const value = (x, seed) => xxHash32(String(x), seed) % g;
  const total = keep + BigInt(g - 1) * UNIT;
  const [kept, moved] = [quotient(keep, total), quotient(UNIT, total)];
  return {
    k,
    ...numbered(count * g),
    weight: (y, x) => (value(x, Math.floor(y / g)) === y % g ? keep : UNIT),
    total: () => BigInt(count) * total,
    worst: () => {
      for (let seed = 0; seed < count; seed += 1) {
        for (let x = 1; x < k; x += 1) {
          if (value(x, seed) !== value(0, seed)) {
            return [keep, UNIT, 0, x];
          }
        }
      }
      return [UNIT, UNIT, 0, 1]; // no function distinguishes any two categories
    },
    naming: (x) => {
      const own = codes(count).map((seed) => value(x, seed));
      const meets = (other) => own.filter((each, seed) => each === value(other, seed)).length / count;
      return named(kept, ...codes(k).filter((other) => other !== x).map((other) => moved + (kept - moved) * meets(other)));
    },
    draw: (x, words) => {
      const seed = below(words, count);
      // Every category is hashed, so that the work does not depend on x.
      const values = Uint32Array.from({ length: k }, (_, y) => value(y, seed));
      return seed * g + randomizedResponse(words, values[x], g, keep);
    },
  };
}

/** XXH32 of fewer than 16 ASCII characters. */
function xxHash32(text, seed) {
  const rotate = (word, bits) => (word << bits) | (word >>> (32 - bits));
  const byte = (i) => text.charCodeAt(i);
  let state = (seed + 374761393 + text.length) | 0;
  let at = 0;
  for (; at + 4 <= text.length; at += 4) {
    const word = byte(at) | (byte(at + 1) << 8) | (byte(at + 2) << 16) | (byte(at + 3) << 24);
    state = Math.imul(rotate((state + Math.imul(word, 3266489917)) | 0, 17), 668265263);
  }
  for (; at < text.length; at += 1) {
    state = Math.imul(rotate((state + Math.imul(byte(at), 374761393)) | 0, 11), 2654435761);
  }
  state = Math.imul(state ^ (state >>> 15), 2246822519);
  state = Math.imul(state ^ (state >>> 13), 3266489917);
  return (state ^ (state >>> 16)) >>> 0;
}

/** RRRR: randomized response on the published subset and one more category. */
function rrrr(settings, odds, k, subset) {
  const [keep1, keep2] = checkShape(settings, odds, 2, k);
  refuseIf(k > MAX_WITH_SUBSET,
    `The question must have at most ${MAX_WITH_SUBSET} categories where a subset is published.`);
  const members = checkMembers(subset, k, "subset");
  refuseIf(members.length === k, "The subset must leave at least one category out.");
  const inside = new Uint8Array(k);
  members.forEach((y) => { inside[y] = 1; });
  const others = codes(k).filter((y) => inside[y] === 0);
  const [size, rest] = [members.length, others.length];
  const rank = new Uint32Array(k);
  members.forEach((y, i) => { rank[y] = i; });
  others.forEach((y, i) => { rank[y] = i; });

  // The table of docs/math.md, section 1, as integers of one total.
  const [first, c] = [size > 0 ? keep1 : UNIT, BigInt(rest)];
  const total2 = keep2 + (c - 1n) * UNIT;
  const total = c * total2 * (first + BigInt(size) * UNIT);
  const weight = (y, x) => {
    if (inside[y]) {
      return (y === x ? first : UNIT) * c * total2;
    }
    if (inside[x]) {
      return UNIT * total2;
    }
    return first * c * (y === x ? keep2 : UNIT);
  };
  const shown = [...members.slice(0, 2), ...others.slice(0, 3)]; // two inside and three outside cover every case
  const chance = (y, x) => quotient(weight(y, x), total);
  return {
    k,
    subset: members,
    ...numbered(k),
    weight,
    total: () => total,
    worst: () => worstOf(shown.flatMap((y) => shown.flatMap((x) =>
      shown.filter((other) => other !== x).map((other) => [weight(y, x), weight(y, other), x, other])))),
    naming: (x) => named(chance(x, x), ...shown.filter((other) => other !== x).map((other) => chance(x, other))),
    draw: (x, words) => {
      const isIn = inside[x] === 1;
      const position = pick(isIn, rank[x], size);
      // Both draws are made for everybody: the time that one takes would reveal who is inside.
      const uniform = below(words, rest);
      const randomized = randomizedResponse(words, rank[x], rest, keep2);
      const extra = pick(isIn, uniform, randomized);
      const chosen = randomizedResponse(words, position, size + 1, keep1);
      return chosen === size ? others[extra] : members[chosen];
    },
  };
}

/** Any weighted family of sets: the answer is the number of a set. Totals may differ between categories. */
function setFamily(settings, odds, k, subset) {
  const [keep] = checkShape(settings, odds, 1, k, subset);
  const given = list(settings.sets, "sets");
  const count = given.length;
  refuseIf(count === 0 || count * k > MAX_TABLE,
    `The question must have 1 to ${Math.floor(MAX_TABLE / k)} sets of ${k} categories.`);
  const sets = given.map((each) => checkMembers(each, k, "sets"));
  refuseIf(new Set(sets.map(String)).size < count, "The sets must be distinct.");
  refuseIf(new Set(sets.flat()).size < k, "The sets must contain every category.");
  const weights = list(settings.weights, "weights").map((each) => positive(each, "weights", 1n));
  refuseIf(weights.length !== count || weights.some((each) => each >= MAX_WEIGHT),
    "The weights must be integers below 2^128, one for each set.");
  const holds = new Uint8Array(count * k);
  sets.forEach((members, a) => members.forEach((x) => { holds[a * k + x] = 1; }));
  const weight = (a, x) => weights[a] * (holds[a * k + x] ? keep : UNIT);
  const { total, draw } = drawnFromTable(count, k, weight);
  const order = codes(k).sort((x, y) => (total(x) < total(y) ? -1 : Number(total(x) > total(y))));
  return {
    k,
    ...numbered(count),
    weight,
    total,
    worst: () => worstOf(sets.flatMap((_, a) => worstOfSet(holds.subarray(a * k, (a + 1) * k), order, total, keep))),
    naming: (x) => {
      const holding = codes(count).filter((a) => holds[a * k + x]);
      const chance = (other) => quotient(holding.reduce((sum, a) => sum + weight(a, other), 0n), total(other));
      return named(chance(x), ...codes(k).filter((other) => other !== x).map(chance));
    },
    draw,
  };
}

/** For answers 0 … count−1 with integers weight(answer, x), return `total(x)`, their sum for a category, and `draw`. */
function drawnFromTable(count, k, weight) {
  const ends = codes(k).map((x) => {
    let sum = 0n;
    return codes(count).map((a) => (sum += weight(a, x)));
  });
  // The first 64 binary digits of every sum of weights except the last, divided by the last, as two halves.
  const low = new Uint32Array((count - 1) * k);
  const high = new Uint32Array((count - 1) * k);
  ends.forEach((sums, x) => {
    for (let a = 0; a < count - 1; a += 1) {
      const threshold = (sums[a] << 64n) / sums[count - 1];
      low[x * (count - 1) + a] = Number(threshold & 0xffffffffn);
      high[x * (count - 1) + a] = Number(threshold >> 32n);
    }
  });
  const draw = (x, words) => {
    const [wordLow, wordHigh] = words.halves();
    // A uniform number is compared with every sum of every category: what is read does not depend on x.
    let place = 0;
    let tie = 0;
    for (let other = 0, i = 0; other < k; other += 1) {
      let above = 0;
      let equal = 0;
      for (let a = 0; a < count - 1; a += 1, i += 1) {
        const same = Number(wordHigh === high[i]);
        above += Number(wordHigh > high[i]) | (same & Number(wordLow >= low[i]));
        equal |= same & Number(wordLow === low[i]);
      }
      const mine = Number(other === x);
      place += mine * above;
      tie |= mine & equal;
    }
    return tie ? placeOf(ends[x], (BigInt(wordHigh) << 32n) | BigInt(wordLow), words) : place;
  };
  return { total: (x) => ends[x][count - 1], draw };
}

/**
 * The classical designs: yes is category 1, no is 0, and `chances` turns the settings `names`, which are fractions, into
 * the probability of a "yes" (with Kuk, of a red card) for each category. With Kuk, an answer counts red cards.
 */
function yesNo(chances, names) {
  return (settings, odds, k, subset) => {
    checkShape(settings, odds, 0, k, subset);
    refuseIf(k !== 2, `The question must have two categories, no and yes, for ${settings.mechanism}.`);
    const given = Object.fromEntries(names.map((name) => [name, fraction(settings[name], name)]));
    const found = chances(given).map(reduced);
    const draws = settings.mechanism === "Kuk" ? integer(settings.draws, "draws", 1, MAX_DRAWS) : 1;
    const unit = (found[0][1] / gcd(found[0][1], found[1][1])) * found[1][1];
    const red = found.map(([top, bottom]) => top * (unit / bottom));
    refuseIf(red.some((each) => each <= 0n || each >= unit) || red[0] === red[1],
      "The question must have probabilities of a yes between 0 and 1 that differ.");
    const weight = (y, x) => binomial(draws, y) * red[x] ** BigInt(y) * (unit - red[x]) ** BigInt(draws - y);
    const { total, draw } = drawnFromTable(draws + 1, 2, weight);
    const chance = (y, x) => quotient(weight(y, x), total(x));
    return {
      k,
      ...numbered(draws + 1),
      weight,
      total,
      worst: () => worstOf(codes(draws + 1).flatMap((y) => [[0, 1], [1, 0]].map(([x, other]) =>
        [weight(y, x) * total(other), weight(y, other) * total(x), x, other]))),
      naming: (x) => {
        // An answer names the category that it is likelier for.
        const naming = codes(draws + 1).filter((y) => chance(y, x) > chance(y, 1 - x));
        return named(...[x, 1 - x].map((each) => naming.reduce((sum, y) => sum + chance(y, each), 0)));
      },
      draw,
    };
  };
}

/** Return the place of a uniform number among sums of weights, given its first 64 digits; draw more if needed. */
function placeOf(ends, first, words) {
  const total = ends[ends.length - 1];
  let [digits, length] = [first, 64n];
  for (;;) {
    const level = digits * total;
    if (!ends.some((end) => level < end << length && end << length < level + total)) {
      return ends.filter((end) => level >= end << length).length;
    }
    digits = (digits << 64n) | words.next();
    length += 64n;
  }
}

/** The ratios that may be the largest for one set: those of the categories with extreme totals, inside and outside. */
function worstOfSet(holds, order, total, keep) {
  const shares = [];
  for (const [flag, odds] of [[1, keep], [0, UNIT]]) {
    const first = order.find((x) => holds[x] === flag);
    if (first !== undefined) {
      const last = order.findLast((x) => holds[x] === flag);
      shares.push([odds, first], [odds, last]);
    }
  }
  return shares.flatMap(([top, x]) =>
    shares.filter(([, other]) => other !== x).map(([bottom, other]) => [top * total(other), bottom * total(x), x, other]));
}

function worstOf(ratios) {
  return ratios.reduce((worst, each) => (each[0] * worst[1] > worst[0] * each[1] ? each : worst), [1n, 1n, 0, 1]);
}

function named(own, ...others) {
  return { named: own, otherwise: [Math.min(...others), Math.max(...others)] };
}

function parity(value) {
  let bits = value ^ (value >> 16);
  bits ^= bits >> 8;
  bits ^= bits >> 4;
  bits ^= bits >> 2;
  return (bits ^ (bits >> 1)) & 1;
}

function codes(n) {
  refuseIf(n > MAX_ASKED * 2,
    `The question has ${n} possible answers; at most ${MAX_ASKED * 2} are listed.`, RangeError);
  return Array.from({ length: n }, (_, i) => i);
}

function combinations(n, size) {
  refuseIf(binomial(n, size) > BigInt(MAX_OUTPUTS),
    `The question has more than ${MAX_OUTPUTS} possible answers, which are not listed.`, RangeError);
  const found = [];
  const extend = (members, next) => {
    if (members.length === size) {
      found.push(members);
      return;
    }
    for (let y = next; y <= n - (size - members.length); y += 1) {
      extend([...members, y], y + 1);
    }
  };
  extend([], 0);
  return found;
}

function isCode(n) {
  return (y) => Number.isInteger(y) && y >= 0 && y < n;
}

/** What a mechanism needs whose answers are the numbers 0 … n−1. */
function numbered(n) {
  return { isAnswer: isCode(n), outputs: () => codes(n) };
}

// ------------------------------------------------------------------------------------------------ reading

/** Return the odds of a question after checking their number, K, and that there is no subset where none belongs. */
function checkShape(settings, odds, count, k, subset) {
  refuseIf(odds.length !== count,
    `The odds must be ${count} integer${count > 1 ? "s" : ""} for ${settings.mechanism}.`);
  refuseIf(settings.n_categories !== k, "The categories must be as many labels as the question has categories.");
  refuseIf(subset !== undefined && subset !== null, `A subset must not be published for ${settings.mechanism}.`);
  return odds;
}

function checkLabels(labels) {
  refuseIf(!Array.isArray(labels) || labels.length < 2 || labels.length > MAX_ASKED,
    `The categories must be a list of 2 to ${MAX_ASKED} labels.`);
  // Control characters, unpaired surrogates, characters that change the direction of the text, and too many marks.
  const unfit = /[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]|\p{M}{31}/u;
  const fit = (label) => typeof label === "string" && label.trim() !== "" && [...label].length <= MAX_LABEL;
  refuseIf(!labels.every((label) => fit(label) && !unfit.test(label)),
    `The categories must be visible text of at most ${MAX_LABEL} characters each.`);
  refuseIf(new Set(labels.map((label) => label.normalize("NFC").trim())).size < labels.length,
    "The categories must be distinct.");
  return [...labels];
}

/** Return distinct categories in increasing order. */
function checkMembers(members, k, name) {
  const found = [...list(members, name)].sort((a, b) => a - b);
  refuseIf(!found.every((x, i) => isCode(k)(x) && x !== found[i - 1]),
    `The ${name} must contain distinct category numbers from 0 to ${k - 1}.`);
  return found;
}

function refuseIf(condition, message, Kind = Error) {
  if (condition) {
    throw new Kind(message);
  }
}

function list(value, name) {
  refuseIf(!Array.isArray(value), `The ${name} must be a list.`);
  return value;
}

function integer(value, name, least, most) {
  refuseIf(!Number.isSafeInteger(value) || value < least || value > most,
    `The ${name} must be an integer from ${least} to ${most}.`);
  return value;
}

function positive(value, name, least) {
  const number = typeof value === "bigint" || Number.isSafeInteger(value) ? BigInt(value) : -1n;
  refuseIf(number < least, `The ${name} must be integers of at least ${least}.`);
  return number;
}

/** Return a text such as "1/6" as a fraction between 0 and 1. */
function fraction(value, name) {
  const parts = typeof value === "string" ? /^(\d{1,20})\/(\d{1,20})$/.exec(value) : null;
  const [top, bottom] = parts === null ? [0n, 0n] : [BigInt(parts[1]), BigInt(parts[2])];
  refuseIf(!(top > 0n && top < bottom && bottom <= UNIT),
    `The ${name} must be a fraction between 0 and 1, such as "1/6".`);
  return [top, bottom];
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Parse JSON as the Python package does: `JSON.parse` would round integers, and of two equal keys it takes the last,
 * while another reader takes the first. Integers of 16 digits and more become BigInt.
 */
function parse(text) {
  refuseIf(typeof text !== "string" || new TextEncoder().encode(text).length > MAX_TEXT,
    `The question must be a text of at most ${MAX_TEXT} bytes.`);
  const token = /[\t\n\r ]*(?:([[\]{},:])|("[^"\\\u0000-\u001f]*(?:\\.[^"\\\u0000-\u001f]*)*")|(true|false|null)|(-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?))/y;
  let [found, end] = [null, 0];
  const failIf = (condition) => refuseIf(condition,
    `The question must be JSON, with each key once in an object and integers of at most ${MAX_DIGITS} digits.`);
  const advance = () => {
    token.lastIndex = end;
    found = token.exec(text);
    end = found === null ? end : token.lastIndex;
  };
  const is = (mark) => found !== null && found[1] === mark;
  const items = (closing, depth, item) => {
    failIf(depth > MAX_DEPTH);
    advance();
    while (!is(closing)) {
      item();
      failIf(!is(",") && !is(closing));
      if (is(",")) {
        advance();
        failIf(is(closing));
      }
    }
    advance();
  };
  const value = (depth) => {
    failIf(found === null);
    const [, mark, string, word, number, fraction, exponent] = found;
    if (mark === "[") {
      const array = [];
      items("]", depth + 1, () => array.push(value(depth + 1)));
      return array;
    }
    if (mark === "{") {
      const object = Object.create(null);
      items("}", depth + 1, () => {
        failIf(found?.[2] === undefined);
        const key = JSON.parse(found[2]);
        advance();
        failIf(!is(":") || key in object);
        advance();
        object[key] = value(depth + 1);
      });
      return object;
    }
    failIf(mark !== undefined);
    advance();
    if (number === undefined) {
      return JSON.parse(string ?? word);
    }
    const isLong = fraction === undefined && exponent === undefined && number.length > 15;
    failIf(isLong && number.length > MAX_DIGITS);
    return isLong ? BigInt(number) : Number(number);
  };
  advance();
  const content = value(0);
  failIf(found !== null || text.slice(end).trim() !== "");
  return content;
}
