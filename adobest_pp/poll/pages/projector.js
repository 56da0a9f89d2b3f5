// The page on the projector. The server sends the state of the poll as events; this page only draws it.
// The key stands behind # in the address, so that it is never part of a request line, and leaves the address at once.

const key = new URLSearchParams(location.hash.slice(1)).get("key") ?? sessionStorage.getItem("adobest-key") ?? "";
sessionStorage.setItem("adobest-key", key);
history.replaceState(null, "", location.pathname);

const $ = (id) => document.getElementById(id);
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const CLOSE = $("close").textContent;
let state = null;
let shown = 0; // the question on the screen
let step = 0; // the step of a lesson plan, if the poll has one
const hands = new Map(); // by question: what a show of hands gave

// Requests

/** Return the reply to a request, or throw what the server says of one that it refuses. */
async function request(path, options = {}) {
  const response = await fetch(path, { cache: "no-store", ...options, headers: { Authorization: `Bearer ${key}`, ...options.headers } });
  if (response.ok) return response;
  throw Object.assign(new Error((await response.text()).slice(0, 300)), { status: response.status });
}

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await request(path, options)).json();
}

async function listen() {
  for (;;) {
    try {
      const response = await request("projector/events");
      tell("");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (text + value).split("\n\n");
        text = events.pop();
        for (const event of events) {
          const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
          if (data) draw(JSON.parse(data));
        }
      }
    } catch (problem) {
      if (problem.status < 500) return tell(problem.message);
      tell("No connection to the server; trying again.");
    }
    await new Promise((wake) => setTimeout(wake, 1000));
  }
}

function tell(text) {
  $("problem").textContent = text;
}

// Drawing

function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function svg(name, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) node.setAttribute(attribute, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const measuring = document.createElement("canvas").getContext("2d");

/** Return how wide a text of a picture is, in pixels. */
function widthOf(text) {
  measuring.font = "17px system-ui, sans-serif"; // as in projector.css
  return measuring.measureText(text).width;
}

function shortened(text, width) {
  if (widthOf(text) <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && widthOf(`${letters.join("")}…`) > width) letters.pop();
  return `${letters.join("").trimEnd()}…`;
}

function draw(next) {
  state = next;
  shown = Math.min(shown, state.questions.length - 1);
  document.title = state.title;
  $("title").textContent = state.title;
  $("counts").textContent = `${state.joined} joined · ${state.answered} answered${state.open ? "" : " · closed"}`;
  $("address").textContent = state.address;
  if (state.qr && !$("code").firstChild) $("code").append(new DOMParser().parseFromString(state.qr, "image/svg+xml").documentElement);
  $("hash").textContent = state.hash;
  $("total").textContent = `ε = ${state.total_epsilon}`;
  $("close").disabled = !state.open;
  $("tabs").hidden = state.questions.length < 2;
  if ($("tabs").children.length !== state.questions.length) $("tabs").replaceChildren(...state.questions.map(tab));
  [...$("tabs").children].forEach((button, i) => button.setAttribute("aria-current", String(i === shown)));
  drawStep();
  drawQuestion(state.questions[shown]);
}

function tab(question, i) {
  const button = element("button", { type: "button" }, `${i + 1}. ${question.text}`);
  button.addEventListener("click", () => { turnTo(i); draw(state); });
  return button;
}

function turnTo(question) {
  if (question === shown) return;
  shown = question;
  for (const id of ["picked", "replayed", "counted"]) $(id).replaceChildren();
  $("simulated").textContent = "";
}

function drawStep() {
  $("plan").hidden = !state.steps;
  if (!state.steps) return;
  const now = state.steps[step];
  $("plan-title").textContent = `${step + 1} of ${state.steps.length}: ${now.title} (${now.minutes} minutes)`;
  $("say").replaceChildren(...now.say.map((text) => element("li", {}, text)));
  $("lesson").textContent = now.lesson ? `Afterwards, lesson ${now.lesson.number}: “${now.lesson.title}” (adobest teach ${now.lesson.number})` : "";
  for (const section of document.querySelectorAll("main > section")) section.hidden = !now.show.includes(section.id);
  $("back").disabled = step === 0;
  $("forward").disabled = step === state.steps.length - 1;
}

function go(by) {
  step = Math.min(Math.max(step + by, 0), state.steps.length - 1);
  turnTo(state.steps[step].question ?? shown);
  draw(state);
}

function drawHands(question) {
  const form = $("counted");
  if (!form.firstChild) {
    question.categories.forEach((name) => {
      const input = element("input", { type: "number", min: 0, step: 1, inputMode: "numeric" });
      input.addEventListener("input", () => {
        hands.set(shown, [...form.querySelectorAll("input")].map((each) => Math.max(0, Math.floor(Number(each.value) || 0))));
        drawQuestion(state.questions[shown]);
      });
      form.append(element("label", {}, name, input));
    });
  }
  const shares = handShares(), estimate = question.estimate;
  if (!shares || !estimate) return void ($("held").textContent = "");
  const held = shares.filter((share, i) => estimate.lower[i] <= share && share <= estimate.upper[i]).length;
  $("held").textContent = `${held} of ${shares.length} intervals contain the share of the show of hands.`;
}

function handShares() {
  const counts = hands.get(shown), total = counts?.reduce((sum, count) => sum + count, 0);
  return total ? counts.map((count) => count / total) : null;
}

function drawQuestion(question) {
  $("estimates-title").textContent = question.text;
  const round = question.rounds ? ` · round ${question.round} of ${question.rounds}` : question.subset ? ` · asked about: ${question.subset.join(", ")}` : "";
  $("settings").textContent = `${question.mechanism} · ε = ${question.epsilon} · ${question.answers} answers${round}`;
  $("next").hidden = !question.can_advance || !state.open;
  drawBars($("bars"), question.categories, question.estimate, handShares());
  drawHands(question);
  $("fit").textContent = question.estimate ? `95 % intervals from ${question.estimate.n} answers.` : `Estimates appear after ${question.least} answers.`;
  if (!state.steps) $("triangle").hidden = !question.estimate?.draws;
  if (question.estimate?.draws) drawTriangle($("simplex"), question.categories, question.estimate);
  drawCurve($("curve"), question.history);
}

function drawBars(parent, categories, estimate, truth = null) {
  const width = Math.max(280, Math.round(parent.clientWidth)); // one unit is one pixel
  const beside = Math.ceil(Math.min(0.4 * width, Math.max(...categories.map(widthOf))));
  const narrow = width - beside - 210 < 340, height = narrow ? 62 : 44; // names stand above the bars, or beside them
  const label = narrow ? 0 : beside, right = narrow ? 0 : 150, wide = width - label - right - 60;
  const x = (share) => label + 24 + wide * share, drawn = JSON.stringify([categories, width]);
  parent.setAttribute("aria-label", categories.map((name, i) => `${name}: ${estimate ? `${percent(estimate.mean[i])}, interval ${estimate.words[i]}` : "no estimate yet"}`).join("; "));
  let picture = parent.firstChild;
  if (picture?.dataset.drawn !== drawn) {
    picture = svg("svg", { viewBox: `0 0 ${width} ${height * categories.length + 30}` });
    picture.dataset.drawn = drawn;
    for (let tick = 0; tick <= 4; tick += 1) {
      picture.append(svg("line", { class: "axis", x1: x(tick / 4), x2: x(tick / 4), y1: 0, y2: height * categories.length }));
      picture.append(svg("text", { class: "soft", x: x(tick / 4), y: height * categories.length + 22, "text-anchor": "middle" }, `${25 * tick} %`));
    }
    categories.forEach((name, i) => {
      const y = height * (i + 1) - 22, most = narrow ? width - 160 : label + 1;
      const [nameAt, wordsAt] = narrow ? [[0, y - 20, "start"], [width, y - 20, "end"]] : [[label, y + 6, "end"], [width - right, y + 6, "start"]];
      picture.append(
        svg("text", { x: nameAt[0], y: nameAt[1], "text-anchor": nameAt[2] }, shortened(name, most)),
        svg("rect", { class: "band", y: y - 12, height: 24, rx: 5, "data-band": i }),
        svg("circle", { class: "share", cy: y, "data-share": i }),
        svg("line", { class: "truth", y1: y - 16, y2: y + 16, "data-truth": i }),
        svg("text", { x: wordsAt[0], y: wordsAt[1], "text-anchor": wordsAt[2], "data-words": i }),
      );
    });
    parent.replaceChildren(picture);
  }
  categories.forEach((_, i) => {
    const [band, share, words, mark] = ["band", "share", "words", "truth"].map((part) => picture.querySelector(`[data-${part}="${i}"]`));
    band.setAttribute("x", x(estimate ? estimate.lower[i] : 0));
    band.setAttribute("width", estimate ? wide * (estimate.upper[i] - estimate.lower[i]) : 0);
    share.setAttribute("cx", x(estimate ? estimate.mean[i] : 0));
    share.setAttribute("r", estimate ? 9 : 0);
    words.textContent = estimate ? estimate.words[i] : "";
    for (const end of ["x1", "x2"]) mark.setAttribute(end, x(truth ? truth[i] : 0));
    mark.setAttribute("visibility", truth ? "visible" : "hidden");
  });
}

function drawTriangle(parent, categories, estimate) {
  const corners = [[60, 380], [440, 380], [250, 50]];
  const place = (theta) => [0, 1].map((axis) => corners.reduce((sum, corner, i) => sum + theta[i] * corner[axis], 0));
  const picture = svg("svg", { viewBox: "0 0 500 430" });
  picture.append(svg("polygon", { class: "outline", points: corners.map(String).join(" ") }));
  for (const theta of estimate.draws) {
    const [cx, cy] = place(theta);
    picture.append(svg("circle", { class: "cloud", cx, cy, r: 4 }));
  }
  const [cx, cy] = place(estimate.mean);
  picture.append(svg("circle", { class: "share", cx, cy, r: 9 }));
  [[60, 410, "middle"], [440, 410, "middle"], [250, 35, "middle"]].forEach(([x, y, anchor], i) => {
    picture.append(svg("text", { x, y, "text-anchor": anchor }, shortened(categories[i], i < 2 ? 120 : 480)));
  });
  parent.replaceChildren(picture);
}

function drawCurve(parent, history) {
  const width = 600, height = 300, left = 60, below = 40;
  const points = history.filter((point) => point.n > 0);
  if (points.length < 2) return parent.replaceChildren();
  const logs = points.map((point) => Math.log(point.n));
  const most = Math.max(0.02, ...points.map((point) => point.half_width)), unit = most > 0.1 ? 0.1 : 0.02;
  const top = unit * Math.ceil(most / unit - 1e-9);
  const x = (n) => left + ((Math.log(n) - logs[0]) / Math.max(1e-9, logs.at(-1) - logs[0])) * (width - left - 20);
  const y = (half) => 10 + (1 - half / top) * (height - below - 10);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}` });
  for (const share of [0, 0.5, 1]) {
    picture.append(svg("line", { class: "axis", x1: left, x2: width - 20, y1: y(share * top), y2: y(share * top) }));
    picture.append(svg("text", { class: "soft", x: left - 8, y: y(share * top) + 6, "text-anchor": "end" }, `${share ? "±" : ""}${(100 * share * top).toFixed(0)}`));
  }
  picture.append(svg("text", { class: "soft", x: left, y: height - 10 }, `${points[0].n} answers`));
  picture.append(svg("text", { class: "soft", x: width - 20, y: height - 10, "text-anchor": "end" }, `${points.at(-1).n}`));
  for (const [name, style] of [["half_width", "path"], ["honest_half_width", "honest"]]) {
    picture.append(svg("polyline", { class: style, points: points.map((point) => `${x(point.n)},${y(point[name])}`).join(" ") }));
  }
  const last = points.at(-1);
  parent.setAttribute("aria-label", `After ${last.n} answers the intervals are ±${percent(last.half_width)}; without privacy they would be ±${percent(last.honest_half_width)}.`);
  parent.replaceChildren(picture);
}

// Asides

async function pick() {
  const question = state.questions[shown];
  const found = await ask(`projector/guess?question=${shown}`);
  const row = (kind, cells) => element("tr", {}, ...cells.map((cell) => element(kind, {}, cell)));
  const rows = question.categories.map((name, i) => row("td", [name, percent(found.before[i], 0), percent(found.after[i], 0)]));
  const best = `The best guess is “${found.best}”. It is right with probability ${percent(found.right, 0)}. ` +
    `The answer changed the odds between two categories by a factor of at most ${found.largest_factor.toFixed(2)}; ε = ${question.epsilon} allows ${found.allowed_factor.toFixed(2)}.`;
  $("picked").replaceChildren(
    element("p", {}, `Somebody sent: ${found.answer.join(", ")}. Nobody here knows who.`),
    element("table", {}, element("thead", {}, row("th", ["option", "before", "after"])), element("tbody", {}, ...rows)),
    element("p", {}, best),
  );
}

const chosenEpsilon = () => Number((2 ** Number($("epsilon").value)).toPrecision(2));

async function replay() {
  const question = state.questions[shown];
  const found = await ask("projector/elsewhere", { question: shown, epsilon: chosenEpsilon() });
  drawBars($("replayed"), question.categories, found);
  $("simulated").textContent = `Simulated: ${found.n} people with the estimated shares answer by subset selection at ε = ${found.epsilon}. No real answer is used.`;
}

async function download(format) {
  tell(format === "html" ? "Writing the report: this takes a minute or two." : "");
  const response = await request(`projector/export?question=${shown}&format=${format}`);
  const link = element("a", { href: URL.createObjectURL(await response.blob()), download: `question-${shown + 1}.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  tell("");
}

function on(id, action) {
  const button = typeof id === "string" ? $(id) : id;
  button.addEventListener("click", async () => {
    const hadFocus = document.activeElement === button; // a disabled button loses it
    button.disabled = true;
    try {
      tell("");
      await action();
    } catch (problem) {
      tell(problem.message);
    } finally {
      button.disabled = false;
      if (state) draw(state);
      if (hadFocus) button.focus();
    }
  });
}

$("epsilon").addEventListener("input", () => {
  $("epsilon-value").textContent = chosenEpsilon();
  $("epsilon").setAttribute("aria-valuetext", String(chosenEpsilon()));
});
on("back", () => go(-1));
on("forward", () => go(1));
on("pick", pick);
on("replay", replay);
on("next", () => ask("projector/next", { question: shown }));
on("close", () => {
  // Closing cannot be undone, so it takes a second click.
  if ($("close").textContent === CLOSE) {
    $("close").textContent = "Really close? This cannot be undone";
    setTimeout(() => ($("close").textContent = CLOSE), 8000);
    return null;
  }
  $("close").textContent = CLOSE;
  return ask("projector/close", {});
});
// The keys of a presenter's remote control, and the arrows.
const KEYS = { PageDown: 1, ArrowRight: 1, PageUp: -1, ArrowLeft: -1 };
addEventListener("keydown", (event) => {
  if (!state?.steps || !(event.key in KEYS) || event.target.matches("input") || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  go(KEYS[event.key]);
});
addEventListener("resize", () => state && drawQuestion(state.questions[shown]));
for (const button of document.querySelectorAll("[data-format]")) on(button, () => download(button.dataset.format));
listen();
