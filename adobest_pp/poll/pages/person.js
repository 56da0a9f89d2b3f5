// The page that people see. It loads the questions, randomizes on this device (adobest.js) and sends the answer.
// What a person chooses is read once, handed to `privatize`, and cleared from the page. It is never stored or sent.
import { readQuestion } from "./adobest.js";

const $ = (id) => document.getElementById(id);
const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
const RETRY = 3000;
const REFUSALS = [400, 403, 410, 413, 415]; // of an answer, by the server

let texts = {};
let poll = null;
const agreed = []; // by question: the ε that this page showed first, which later rounds must keep
const about = {}; // by public column: what the person chose, which is sent as it is
const sent = []; // by question: what was sent, to show it until the page is left

// What this browser remembers: a random token, which questions are answered, and a randomized answer until it is taken.
// Where its storage is blocked or full, only this page remembers it.
const memory = new Map();
const shelf = {
  get: (name) => memory.get(name) ?? stored("getItem", name) ?? null,
  set: (name, value) => {
    memory.set(name, value);
    if (stored("setItem", name, value) !== null) memory.delete(name);
  },
  remove: (name) => {
    memory.delete(name);
    stored("removeItem", name);
  },
};

/** Call a method of the browser's storage, and return null if it fails. */
function stored(method, name, ...values) {
  try {
    return localStorage[method](`adobest:${poll.name}:${name}`, ...values);
  } catch {
    return null;
  }
}

// Requests

async function post(path, body) {
  const options = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return fetch(path, { cache: "no-store", ...options });
}

async function load(path) {
  const response = await fetch(path, { cache: "no-store" });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

async function join() {
  if (shelf.get("token") !== null || !poll.open) return;
  const response = await post("join", {});
  if (response.status === 410) poll.open = false; // it was closed a moment ago
  if (!poll.open) return;
  if (!response.ok) throw new Error(await response.text()); // without a token nothing may be drawn: it would be refused
  const { token, question } = await response.json();
  if (shelf.get("token") !== null) return; // another tab was faster
  shelf.set("token", token);
  if (question !== null) shelf.set("question", String(question));
}

/** Send the answers that wait, each until it is taken; whatever happens, none is drawn again. */
async function deliver(index) {
  const waiting = shelf.get(`waiting:${index}`);
  if (waiting === null) return;
  const response = await post("answer", { token: shelf.get("token"), ...JSON.parse(waiting) }).catch(() => null);
  const isCounted = response?.status === 409 || (response?.ok && (await response.json().catch(() => null))?.counted === true);
  // Whatever is not from the poll's server, such as the page of a wireless network or a proxy, is as good as no reply.
  if (!isCounted && !REFUSALS.includes(response?.status)) {
    status(index, texts.waiting);
    setTimeout(() => deliver(index), RETRY);
    return;
  }
  shelf.remove(`waiting:${index}`);
  if (isCounted) {
    shelf.set(`done:${index}`, "yes");
  } else if (response.status === 410) {
    poll.open = false;
  } else {
    tell(fill(texts.failed, { reason: (await response.text()).trim() }));
  }
  show(index, true);
}

// Parts of the page

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) node.setAttribute(attribute, value);
  node.append(...children);
  return node;
}

/** Text of the poll's author: in its own direction, whatever that of the page is. */
const theirs = (text) => element("bdi", {}, text);
const percent = (share) => `${(100 * share).toLocaleString(document.documentElement.lang, { maximumFractionDigits: share < 0.1 ? 1 : 0 })} %`;
const short = (value) => value.toLocaleString(document.documentElement.lang, { maximumSignificantDigits: 3 });

function tell(text) {
  $("problem").textContent = text;
}

function status(index, text) {
  $(`status-${index}`).textContent = text;
}

function table(caption, headings, rows) {
  const head = element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map(([name, isNamed, ...cells]) =>
    element("tr", isNamed ? { class: "named" } : {}, element("th", { scope: "row" }, theirs(name)), ...cells.map((cell) => element("td", {}, cell))));
  return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body));
}

function oddsTable(question) {
  const between = ([low, high]) => (high - low < 0.0005 ? percent(high) : `${percent(low)} – ${percent(high)}`);
  const rows = question.odds().map(({ category, named, otherwise }) => [category, false, percent(named), between(otherwise)]);
  return table(texts.odds_caption, [texts.odds_option, texts.odds_if, texts.odds_if_not], rows);
}

/** What was sent, beside why it does not give the answer away. */
function receipt({ question, answer }) {
  const odds = question.odds(answer);
  const most = Math.max(...odds.map((each) => each.probability));
  const least = Math.min(...odds.map((each) => each.probability));
  const named = odds.filter((each) => each.probability > least && each.probability >= most * (1 - 1e-9));
  const words = named.length === 1 ? texts.sent_one : named.length === 0 ? texts.sent_none : fill(texts.sent_many, { count: named.length, all: odds.length });
  const names = element("strong", {}, ...named.flatMap((each, i) => (i ? [", ", theirs(each.category)] : [theirs(each.category)])));
  const rows = odds.map((each) => [each.category, named.includes(each), short(100 * each.probability)]);
  return [
    element("p", { class: "sent" }, `${words} `, names),
    element("p", {}, fill(texts.why, { factor: short(Math.exp(question.epsilon)) })),
    table(texts.why_caption, [texts.why_option, texts.why_share], rows),
  ];
}

/** What is sent as it is: one choice for each public column. */
function aboutForm() {
  const columns = Object.entries(poll.public);
  const choices = columns.map(([name, labels]) => {
    const options = ["", ...labels].map((label) => element("option", { value: label }, label));
    const select = element("select", { autocomplete: "off" }, ...options);
    select.value = about[name] ?? "";
    select.addEventListener("change", () => {
      about[name] = select.value;
      document.querySelectorAll("form").forEach((form) => form.dispatchEvent(new Event("change")));
    });
    return element("label", { class: "about" }, element("span", { dir: "auto" }, name), select);
  });
  const heading = element("legend", {}, texts.about);
  $("about").hidden = !columns.length || !mine().some((index) => stateOf(index) === "open");
  $("about").replaceChildren(element("fieldset", {}, heading, element("p", { class: "note" }, texts.about_note), ...choices));
}

const isToldAll = () => Object.keys(poll.public).every((name) => about[name]);

/** Whether a question is answered, on its way, still open, or closed: the same in every tab. */
function stateOf(index) {
  if (shelf.get(`done:${index}`) !== null) return "done";
  if (shelf.get(`waiting:${index}`) !== null) return "waiting";
  return poll.open ? "open" : "closed";
}

function show(index, focus = false) {
  const asked = poll.questions[index];
  const heading = element("h2", { id: `heading-${index}`, dir: "auto", tabindex: "-1" }, asked.text);
  const live = element("p", { id: `status-${index}`, role: "status" });
  const state = stateOf(index);
  const section = element("section", { id: `question-${index}`, "aria-labelledby": `heading-${index}`, "data-state": state });
  if (state === "open") {
    section.append(form(index, asked, live));
  } else {
    live.textContent = { done: texts.done, waiting: texts.sending, closed: texts.closed }[state];
    section.append(heading, live, ...(state === "done" && sent[index] ? receipt(sent[index]) : []));
  }
  $(`question-${index}`).replaceWith(section);
  $("about").hidden ||= !mine().some((each) => stateOf(each) === "open");
  if (focus) (section.querySelector("h2") ?? section).focus();
}

function form(index, asked, live) {
  let question;
  try {
    agreed[index] ??= JSON.parse(asked.published).question.epsilon;
    question = readQuestion(asked.published, { epsilon: agreed[index] });
  } catch (problem) {
    live.textContent = fill(texts.refused, { reason: problem.message });
    return element("div", {}, element("h2", { id: `heading-${index}`, dir: "auto" }, asked.text), live);
  }
  const legend = element("legend", { id: `heading-${index}`, dir: "auto" }, asked.text);
  const choices = question.categories.map((category, x) =>
    element("label", { class: "choice" }, element("input", { type: "radio", name: `choice-${index}`, value: String(x), autocomplete: "off" }), theirs(category)));
  const send = element("button", { type: "submit", disabled: "" }, texts.send);
  const values = { epsilon: short(question.epsilon), factor: short(Math.exp(question.epsilon)) };
  const curious = element("details", {}, element("summary", {}, texts.odds));
  curious.addEventListener("toggle", () => curious.children.length > 1 || curious.append(oddsTable(question)));
  const made = element("form", { autocomplete: "off" }, element("fieldset", {}, legend, element("p", { class: "note" }, fill(texts.epsilon, values)), ...choices), send, live, curious);
  made.addEventListener("change", () => { send.disabled = made.querySelector("input:checked") === null || !isToldAll(); });
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(index, question, made);
  });
  return made;
}

function answer(index, question, made) {
  const chosen = made.querySelector("input:checked");
  if (chosen === null || !isToldAll()) return;
  if (stateOf(index) === "open") { // in other tabs, too
    const randomized = question.privatize(Number(chosen.value));
    sent[index] = { question, answer: randomized };
    const open = Object.keys(poll.public).length ? { public: { ...about } } : {};
    shelf.set(`waiting:${index}`, JSON.stringify({ question: index, number: question.number, answer: randomized, ...open }));
  }
  made.reset();
  show(index);
  deliver(index);
}

// The page

async function speak(language) {
  texts = await load(`${language}.json`);
  document.documentElement.lang = language;
  document.documentElement.dir = texts.direction ?? "ltr";
  $("promise").textContent = texts.promise;
  $("language-name").textContent = texts.language_label;
  $("limits").querySelector("summary").textContent = texts.limits;
  $("limits").querySelector("ul").replaceChildren(...texts.limits_list.map((text) => element("li", {}, text)));
  $("hash-name").textContent = texts.hash;
  const values = { count: poll.questions.length, total: short(poll.total_epsilon) };
  $("sum").hidden = poll.questions.length < 2;
  $("sum").textContent = fill(poll.each_person === "one" ? texts.sum_one : texts.sum_all, values);
  aboutForm();
  for (const index of mine()) show(index);
}

function mine() {
  const drawn = shelf.get("question");
  if (poll.each_person === "one") return drawn === null ? [] : [Number(drawn)];
  return poll.questions.map((_, index) => index);
}

async function start() {
  poll = await load("poll");
  document.title = poll.title;
  $("title").textContent = poll.title;
  $("title").hidden = poll.questions.length === 1 && poll.title === poll.questions[0].text;
  $("hash").textContent = poll.hash;
  await join();
  $("questions").replaceChildren(...mine().map((index) => element("section", { id: `question-${index}` })));
  const wished = navigator.languages.map((each) => each.slice(0, 2));
  const language = wished.find((each) => poll.languages.includes(each)) ?? poll.languages[0];
  const select = $("language");
  for (const each of poll.languages) select.append(element("option", { value: each, lang: each }, new Intl.DisplayNames([each], { type: "language" }).of(each)));
  select.value = language;
  select.addEventListener("change", () => speak(select.value));
  $("language-label").hidden = poll.languages.length < 2;
  await speak(language);
  for (const index of mine()) deliver(index);
  addEventListener("online", () => mine().forEach((index) => deliver(index)));
  addEventListener("storage", () => mine().forEach((index) => {
    if ($(`question-${index}`).dataset.state !== stateOf(index)) show(index);
  }));
}

start().catch(() => tell(texts.broken ?? "The poll could not be loaded. Check the connection and reload the page."));
