// The script of a lesson's page: controls change their pictures, questions are graded, and predictions are remembered.
// `page` is the JSON in the page, and `pictures` comes from the lesson's own file.

const page = JSON.parse(document.getElementById("lesson").textContent);
const byId = (id) => document.getElementById(id);

// What is remembered stays in this browser. Browsers may refuse to remember for pages opened from a file.

const memory = {
  key: `adobest-lesson:${page.name}`,
  kept: {},
  load() {
    if (page.deck) return; // every class predicts anew
    try { this.kept = JSON.parse(localStorage.getItem(this.key)) ?? {}; } catch { /* nothing is remembered */ }
  },
  keep(name, value) {
    this.kept[name] = value;
    if (page.deck) return;
    try { localStorage.setItem(this.key, JSON.stringify(this.kept)); } catch { /* nothing is remembered */ }
  },
  forget() {
    this.kept = {};
    try { localStorage.removeItem(this.key); } catch { /* nothing was remembered */ }
  },
};
memory.load();

// Pictures

function connectPicture(given, i) {
  const place = byId(`picture-${i}`);
  const panels = place.querySelector(".panels");
  const reading = place.querySelector(".reading");
  const picture = pictures[given.name];
  const inputs = given.controls.map((control, j) => byId(`picture-${i}-${j}`));
  const shown = (control, value) => (control.unit === undefined ? value : `${say(value, 6)}${control.unit && ` ${control.unit}`}`);
  let drawn = 0;

  function settings() {
    const found = {};
    given.controls.forEach((control, j) => {
      const value = control.values[Number(inputs[j].value)];
      found[control.name] = value;
      if (control.unit === undefined) return; // a menu speaks for itself
      inputs[j].setAttribute("aria-valuetext", shown(control, value));
      inputs[j].nextElementSibling.textContent = shown(control, value);
    });
    return found;
  }

  function draw() {
    const now = settings();
    const numbers = picture.compute(now, page.data);
    drawn = panels.clientWidth;
    let zoom = page.zoom ?? 1;
    do show(panels, picture.draw(numbers, now), drawn || 640, zoom);
    while (page.fit && document.documentElement.scrollHeight > innerHeight && (zoom -= 0.1) > 0.6); // a slide has no scrollbar
    const text = picture.say(numbers, now);
    if (reading.textContent !== text) reading.textContent = text;
  }

  inputs.forEach((input) => input.addEventListener("input", draw));
  new ResizeObserver(() => { if (panels.clientWidth && panels.clientWidth !== drawn) draw(); }).observe(panels);
  draw();
}

// Predictions

function verdictText(place, right, html) {
  const word = tag("strong", { class: "word" }, right ? "Right. " : "Not quite. ");
  place.className = `verdict ${right ? "right" : "wrong"}`;
  place.innerHTML = html; // of our own file
  (place.querySelector("p") ?? place).prepend(word);
}

function remind(place, text) {
  place.className = "verdict";
  place.textContent = text;
}

function connectPrediction(given, i) {
  const form = byId(`prediction-${i}`);
  const verdict = form.querySelector(".verdict");
  const look = form.querySelector(".look");
  const options = [...form.querySelectorAll("input")];
  const behind = byId(`behind-${i}`);
  const name = `prediction ${i}`;

  function reveal() {
    if (behind) behind.hidden = false;
    for (const each of [look, byId(`waiting-${i}`)]) if (each) each.hidden = true;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = options.findIndex((option) => option.checked);
    if (chosen < 0) return remind(verdict, "Choose an answer first, or press “Show me”.");
    if (memory.kept[name] === undefined) memory.keep(name, given.options[chosen]); // the first one counts
    verdictText(verdict, chosen === given.right, given.replies[chosen]);
    reveal();
    sumUp();
  });
  look?.addEventListener("click", () => {
    memory.keep(name, null);
    remind(verdict, "Shown without a prediction.");
    reveal();
    sumUp();
    form.querySelector("button").focus();
  });
  const before = memory.kept[name];
  if (before === undefined) return;
  const chosen = given.options.indexOf(before);
  if (chosen >= 0) {
    options[chosen].checked = true;
    verdictText(verdict, chosen === given.right, given.replies[chosen]);
  }
  if (chosen >= 0 || before === null) reveal();
}

function sumUp() {
  const place = byId("summary");
  if (!place) return;
  const first = page.predictions.map((_, i) => memory.kept[`prediction ${i}`]);
  const answered = first.filter((each) => typeof each === "string").length;
  const right = page.predictions.filter((each, i) => first[i] === each.options[each.right]).length;
  const looked = first.filter((each) => each === null).length;
  const left = page.predictions.length - answered - looked;
  const parts = [];
  if (answered) parts.push(`You predicted ${right} of ${answered} right.`);
  if (looked) parts.push(`You looked first at ${looked === 1 ? "one question" : `${looked} questions`}.`);
  if (left) parts.push(left === page.predictions.length ? "No predictions yet." : `${left === 1 ? "One question is" : `${left} questions are`} still open.`);
  if (answered && right < answered) parts.push("A wrong prediction that you remember teaches more than a right one.");
  place.querySelector("p").textContent = parts.join(" ");
  place.querySelector("button").hidden = !answered && !looked;
}

// Exercises: a wrong try shows the next hint; after the last one there is the solution.

function connectHints(form, hints) {
  const list = form.querySelector(".hints");
  return (count) => {
    for (const hint of hints.slice(list.children.length, count)) {
      const item = tag("li");
      item.innerHTML = hint; // of our own file
      list.append(item);
    }
    list.hidden = !list.children.length;
  };
}

/** Read a number as people write it: 1,000.5 and 1000,5 and 45 %. */
function readNumber(text) {
  const plain = text.trim().replace(/\s*%$/, "").replace("−", "-").replace(/\s/g, "");
  const grouped = /^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(plain);
  return plain === "" ? NaN : Number(grouped ? plain.replaceAll(",", "") : plain.replace(",", "."));
}

function connectNumeric(given, form) {
  const box = form.querySelector("input");
  const verdict = form.querySelector(".verdict");
  const solution = form.querySelector("details");
  const hint = connectHints(form, given.hints);
  let wrong = 0;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = readNumber(box.value);
    if (!Number.isFinite(value)) return remind(verdict, "Type a number first.");
    const right = Math.abs(value - given.answer) <= given.tolerance;
    if (right) return verdictText(verdict, true, given.why);
    wrong += 1;
    hint(wrong);
    verdictText(verdict, false, wrong <= given.hints.length ? "Here is a hint." : "The answer is below.");
    if (wrong < given.hints.length) return;
    solution.querySelector("div").innerHTML = `<p><strong>${given.shown}</strong></p>${given.why}`;
    solution.hidden = false;
  });
}

function connectOptions(given, form) {
  const options = [...form.querySelectorAll("input")];
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = options.findIndex((option) => option.checked);
    if (chosen < 0) return remind(form.querySelector(".verdict"), "Choose an answer first.");
    verdictText(form.querySelector(".verdict"), chosen === given.right, given.replies[chosen]);
  });
}

function connectCode(given, form, i) {
  const box = form.querySelector("textarea");
  const button = form.querySelector("button[type=submit]");
  const verdict = form.querySelector(".verdict");
  const printed = form.querySelector(".printed");
  const solution = form.querySelector("details");
  const hint = connectHints(form, given.hints);
  const name = `code ${i}`;
  if (memory.kept[name] !== undefined) box.value = memory.kept[name];

  let leaving = false; // after Escape, Tab goes to the next element as everywhere else
  box.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && !event.shiftKey && !leaving) {
      event.preventDefault();
      box.setRangeText("    ", box.selectionStart, box.selectionEnd, "end");
    }
    leaving = event.key === "Escape";
  });
  form.querySelector(".again").addEventListener("click", () => { box.value = given.start; box.focus(); });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    memory.keep(name, box.value);
    button.disabled = true;
    remind(verdict, "Running. It is stopped within 5 seconds.");
    try {
      const reply = await fetch("check", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ lesson: page.name, exercise: given.name, code: box.value }) });
      if (!reply.ok) return remind(verdict, (await reply.text()).slice(0, 300));
      const found = await reply.json();
      verdict.className = `verdict ${found.right ? "right" : "wrong"}`;
      verdict.replaceChildren(tag("strong", { class: "word" }, found.right ? "Right. " : "Not yet. "), found.right ? "" : found.message);
      printed.hidden = !found.printed;
      printed.querySelector("pre").textContent = found.printed;
      hint(found.hints);
      if (found.solution) {
        solution.querySelector("pre").textContent = found.solution;
        solution.hidden = false;
      }
    } catch {
      remind(verdict, "The server does not answer. Is adobest teach still running?");
    } finally {
      button.disabled = false;
    }
  });
}

page.pictures.forEach(connectPicture);
document.documentElement.style.setProperty("--panels", document.querySelectorAll(".panel").length);
page.predictions.forEach(connectPrediction);
page.exercises.forEach((given, i) => {
  const form = byId(`exercise-${i}`);
  if (given.kind === "code") connectCode(given, form, i);
  else if (given.kind === "number") connectNumeric(given, form);
  else connectOptions(given, form);
});
sumUp();
byId("summary")?.querySelector("button").addEventListener("click", () => { memory.forget(); location.reload(); });
