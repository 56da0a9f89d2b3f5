// Small pictures in SVG, with text as text, in the colors of the page, drawn again for every width.
//
// `draw` of a picture returns a list of panels, plain objects. Beside each other where there is room, else stacked:
//
//   { title, x: axis, y: axis, marks: [...], height }                 a plot
//     axis: { from, to, label, log, percent, ticks: [...], names: ["yes", "no"], format: (value) => text }
//           `names` makes an axis of categories at 0, 1, 2, …; from and to are then not needed
//     marks, each with color 1 to 5 (0 is gray, 9 that of the card, for text on bars) and, for the legend, label:
//       { line: [[x, y], …], dash }         { area: [[x, low, high], …] }          { dots: [[x, y], …], size, hollow }
//       { bars: [[from, to, height], …], across, colors }                         see `columns`
//       { ranges: [[at, low, high, middle], …], across }                          intervals with their middle
//       { rule: { x: value } or { y: value }, dash }                              a line across the whole plot
//       { text: [x, y, "words"], anchor: "start" | "middle" | "end" }
//   { title, rows: [...], columns: [...], values: [[...]], framed: [[row, column], …], above, beside, format }   a matrix
//   { title, corners: ["a", "b", "c"], marks: [{ dots }, { cross }, { polygon }, { line }] }                      a triangle
//     points of a triangle are shares [a, b, c]
//
// Nothing here touches the page until `show` is called, so tests load this file in Node.

const SVG = "http://www.w3.org/2000/svg";
const TEXT = 14; // pixels; as in lesson.css
const WIDE = 620; // from this width on, panels stand beside each other
const GAP = 24;

function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function tag(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

let measuring;
function textWidth(text) {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = `${TEXT}px system-ui, sans-serif`;
  return measuring.measureText(text).width;
}

// Numbers and shapes that draw functions use

/** A number as people read it: thousands separated, at most so many significant digits. */
function say(value, digits = 3) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "–";
  const rounded = Math.abs(value) >= 10 ** digits ? Math.round(value) : Number(value.toPrecision(digits));
  return rounded.toLocaleString("en-US", { maximumFractionDigits: 12 }).replace("-", "−");
}

/** A share as a percentage: 0.232 is "23 %". */
function percent(share, digits = 2) {
  return `${say(100 * share, digits)}\u00a0%`;
}

/** Bars of a plot over an axis of names: one for each value, `width` wide, `offset` from the middle. */
function columns(values, width = 0.7, offset = 0) {
  return values.map((value, i) => [i + offset - width / 2, i + offset + width / 2, value]);
}

/** `count` evenly spaced numbers from `from` to `to`. */
function steps(from, to, count) {
  return Array.from({ length: count }, (_, i) => from + ((to - from) * i) / (count - 1));
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

// Axes

function scaleOf(axis, start, end) {
  const [from, to] = axis.names ? [-0.6, axis.names.length - 0.4] : [axis.from, axis.to];
  const place = axis.log ? Math.log : (value) => value;
  const scale = (value) => start + ((place(value) - place(from)) / (place(to) - place(from))) * (end - start);
  return Object.assign(scale, { from, to });
}

function ticksOf(axis, room) {
  if (axis.names) return axis.names.map((_, i) => i);
  if (axis.ticks) return axis.ticks;
  if (axis.log) {
    const powers = steps(-12, 12, 25).map((power) => Number(`1e${power}`));
    return powers.filter((value) => value >= axis.from * 0.999 && value <= axis.to * 1.001);
  }
  const rough = (axis.to - axis.from) / Math.max(2, Math.floor(room / 60));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= rough * 0.999) * power;
  const first = Math.ceil(axis.from / step - 1e-9);
  return Array.from({ length: Math.floor(axis.to / step - first + 1e-9) + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function tickText(axis, value) {
  if (axis.names) return axis.names[value];
  if (axis.format) return axis.format(value);
  return axis.percent ? percent(value, 4) : say(value, 4);
}

// Plots

let clips = 0;

function drawPlot(panel, width) {
  const height = panel.height ?? 280;
  const left = Math.max(28, ...ticksOf(panel.y, height).map((value) => textWidth(tickText(panel.y, value)) + 12));
  const box = { left: Math.min(left, width * 0.4), right: width - 14, top: panel.y.label ? 30 : 12, bottom: height - (panel.x.label ? 50 : 28) };
  const x = scaleOf(panel.x, box.left, box.right);
  const y = panel.y.names ? scaleOf(panel.y, box.top, box.bottom) : scaleOf(panel.y, box.bottom, box.top);
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  const clip = `clip-${(clips += 1)}`;
  svg.append(node("clipPath", { id: clip }, node("rect", { x: box.left, y: box.top - 6, width: box.right - box.left + 6, height: box.bottom - box.top + 12 })));
  let free = -Infinity; // where the last text along the axis ends
  for (const value of ticksOf(panel.x, box.right - box.left)) {
    const text = tickText(panel.x, value);
    const half = textWidth(text) / 2;
    const middle = Math.min(x(value), width - half);
    if (!panel.x.names) svg.append(node("line", { class: "grid", x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }));
    if (middle - half < free + 6) continue;
    free = middle + half;
    svg.append(node("text", { x: middle, y: box.bottom + 19, "text-anchor": "middle" }, text));
  }
  for (const value of ticksOf(panel.y, box.bottom - box.top)) {
    if (!panel.y.names) svg.append(node("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }));
    svg.append(node("text", { x: box.left - 7, y: y(value) + 5, "text-anchor": "end" }, tickText(panel.y, value)));
  }
  svg.append(node("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  if (panel.x.label) svg.append(node("text", { class: "soft", x: box.right, y: height - 8, "text-anchor": "end" }, `${panel.x.label} →`));
  if (panel.y.label) svg.append(node("text", { class: "soft", x: 0, y: 15 }, `↑ ${panel.y.label}`));
  const inside = node("g", { "clip-path": `url(#${clip})` });
  svg.append(inside);
  for (const mark of panel.marks) drawMark(mark, x, y, box, mark.text ? svg : inside);
  return svg;
}

function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(2)},${y.toFixed(2)}`).join("");
}

function drawMark(mark, x, y, box, into) {
  const color = `c${mark.color ?? 1}`;
  const at = ([a, b]) => [x(a), y(b)];
  const finite = (points) => points.filter((point) => point.every((value) => value === undefined || Number.isFinite(value)));
  if (mark.area) {
    const points = finite(mark.area);
    const edge = [...points.map(([a, low]) => at([a, low])), ...points.map(([a, , high]) => at([a, high])).reverse()];
    into.append(node("path", { class: `area ${color}`, d: `${path(edge)}Z` }));
  } else if (mark.line) {
    into.append(node("path", { class: `line ${color}${mark.dash ? " dash" : ""}`, d: path(finite(mark.line).map(at)) }));
  } else if (mark.bars) {
    finite(mark.bars).forEach(([from, to, height], i) => {
      const [a, b] = mark.across ? [y(from), y(to)] : [x(from), x(to)];
      const scale = mark.across ? x : y;
      const [zero, end] = [scale(Math.max(scale.from, 0)), scale(height)];
      const [start, size] = [Math.min(zero, end), Math.abs(end - zero)];
      const [low, thick] = [Math.min(a, b), Math.abs(b - a)];
      const shape = mark.across ? { x: start, y: low, width: size, height: thick } : { x: low, y: start, width: thick, height: size };
      into.append(node("rect", { class: `bar ${mark.colors ? `c${mark.colors[i]}` : color}`, ...shape }));
    });
  } else if (mark.dots) {
    for (const point of finite(mark.dots)) {
      const [cx, cy] = at(point);
      into.append(node("circle", { class: `dot ${color}${mark.hollow ? " hollow" : ""}`, cx: cx.toFixed(2), cy: cy.toFixed(2), r: mark.size ?? 5 }));
    }
  } else if (mark.ranges) {
    for (const [where, low, high, middle] of finite(mark.ranges)) {
      const swap = ([along, value]) => (mark.across ? at([value, along]) : at([along, value]));
      const [a, b] = [swap([where, low]), swap([where, high])];
      into.append(node("line", { class: `range ${color}`, x1: a[0], y1: a[1], x2: b[0], y2: b[1] }));
      if (middle === undefined) continue;
      const [cx, cy] = swap([where, middle]);
      into.append(node("circle", { class: `dot ${color}`, cx, cy, r: mark.size ?? 4.5 }));
    }
  } else if (mark.rule) {
    const vertical = mark.rule.x !== undefined;
    const place = vertical ? x(mark.rule.x) : y(mark.rule.y);
    const ends = vertical ? { x1: place, x2: place, y1: box.top, y2: box.bottom } : { x1: box.left, x2: box.right, y1: place, y2: place };
    into.append(node("line", { class: `line ${color}${mark.dash ? " dash" : ""}`, ...ends }));
  } else if (mark.text) {
    const [a, b, words] = mark.text;
    const half = textWidth(words) / (mark.anchor === "middle" ? 2 : 1);
    const low = mark.anchor === "start" || mark.anchor === undefined ? 0 : half;
    const high = mark.anchor === "end" ? 0 : half;
    const place = Math.max(low, Math.min(x(a), box.right + 14 - high)); // inside the picture
    into.append(node("text", { class: `words ${color}`, x: place, y: y(b), "text-anchor": mark.anchor ?? "start" }, words));
  }
}

// Matrices: the darker a cell, the larger its value

function drawMatrix(panel, width) {
  const left = Math.min(width * 0.35, Math.max(...panel.rows.map(textWidth)) + 14);
  const cell = Math.min((width - left - 2) / panel.columns.length, 150);
  const long = Math.max(...panel.columns.map(textWidth));
  const upright = long > cell - 4; // names that are too wide stand upright
  const top = (panel.above ? 50 : 28) + (upright ? long - 10 : 0);
  const tall = Math.min(cell, 54);
  const height = top + tall * panel.rows.length + 4;
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  const largest = Math.max(...panel.values.flat());
  if (panel.above) svg.append(node("text", { class: "soft", x: left, y: 15 }, `${panel.above} →`));
  panel.columns.forEach((name, j) => {
    const [x, y] = [left + (j + 0.5) * cell + (upright ? 5 : 0), top - 9];
    svg.append(node("text", { x, y, "text-anchor": upright ? "start" : "middle", transform: upright ? `rotate(-90 ${x} ${y})` : undefined }, name));
  });
  panel.rows.forEach((name, i) => {
    svg.append(node("text", { x: left - 8, y: top + (i + 0.5) * tall + 5, "text-anchor": "end" }, name));
    panel.values[i].forEach((value, j) => {
      const place = { x: left + j * cell + 1, y: top + i * tall + 1, width: cell - 2, height: tall - 2 };
      svg.append(node("rect", { class: "cell c1", ...place, "fill-opacity": (0.04 + 0.4 * (value / largest)).toFixed(3) }));
      const text = (panel.format ?? ((each) => say(each, 2)))(value);
      if (text && textWidth(text) < cell) svg.append(node("text", { x: left + (j + 0.5) * cell, y: top + (i + 0.5) * tall + 5, "text-anchor": "middle" }, text));
    });
  });
  for (const [i, j] of panel.framed ?? []) {
    svg.append(node("rect", { class: "frame c2", x: left + j * cell + 2.5, y: top + i * tall + 2.5, width: cell - 5, height: tall - 5 }));
  }
  return svg;
}

// Triangles: every point is three shares

function drawTriangle(panel, width) {
  const side = Math.min(width - 8, 420);
  const high = (side * Math.sqrt(3)) / 2;
  const [left, top] = [(width - side) / 2, 28];
  const height = top + high + 28;
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  const place = ([a, b, c]) => [left + side * (b + c / 2) / (a + b + c), top + high * (1 - c / (a + b + c))];
  const corners = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map(place);
  svg.append(node("path", { class: "edge", d: `${path(corners)}Z` }));
  for (const mark of panel.marks) {
    const color = `c${mark.color ?? 1}`;
    if (mark.polygon) svg.append(node("path", { class: `area ${color}`, d: `${path(mark.polygon.map(place))}Z` }));
    if (mark.line) svg.append(node("path", { class: `line ${color}`, d: path(mark.line.map(place)) }));
    for (const point of mark.dots ?? []) {
      const [cx, cy] = place(point);
      svg.append(node("circle", { class: `dot small ${color}`, cx: cx.toFixed(2), cy: cy.toFixed(2), r: mark.size ?? 2.2 }));
    }
    if (mark.cross) {
      const [a, b] = place(mark.cross);
      svg.append(node("path", { class: `line ${color}`, d: `M${a - 7},${b - 7}l14,14m0,-14l-14,14` }));
    }
  }
  const words = [[left, height - 8, "start"], [left + side, height - 8, "end"], [left + side / 2, 18, "middle"]];
  panel.corners.forEach((name, i) => svg.append(node("text", { x: words[i][0], y: words[i][1], "text-anchor": words[i][2] }, `all ${name}`)));
  return svg;
}

// Panels on the page

function legendOf(panel) {
  const entries = (panel.marks ?? []).filter((mark) => mark.label).map((mark) => {
    const kind = mark.area || mark.polygon ? "area" : mark.bars ? "bar" : mark.dots ? "dot" : mark.cross ? "cross" : "line";
    const color = `c${mark.color ?? 1}${mark.dash ? " dash" : ""}${mark.hollow ? " hollow" : ""}`;
    const sign = node("svg", { class: "sign", viewBox: "0 0 22 14", width: 22, height: 14, "aria-hidden": "true" });
    if (kind === "area" || kind === "bar") sign.append(node("rect", { class: `${kind} ${color}`, x: 1, y: 1, width: 20, height: 12 }));
    else if (kind === "dot") sign.append(node("circle", { class: `dot ${color}`, cx: 11, cy: 7, r: 5 }));
    else if (kind === "cross") sign.append(node("path", { class: `line ${color}`, d: "M5,1l12,12m0,-12l-12,12" }));
    else sign.append(node("line", { class: `line ${color}`, x1: 0, x2: 22, y1: 7, y2: 7 }));
    return tag("li", {}, sign, ` ${mark.label}`);
  });
  return entries.length ? tag("ul", { class: "legend" }, ...entries) : "";
}

/** Draw panels into an element of the page, for its width; a zoom of 2 is twice as large, for a projector. */
function show(place, panels, across, zoom = 1) {
  const width = across / zoom;
  const beside = across >= WIDE ? panels.length : 1;
  const each = Math.floor((width - (GAP / zoom) * (beside - 1)) / beside);
  place.replaceChildren(...panels.map((panel) => {
    const svg = panel.corners ? drawTriangle(panel, each) : panel.values ? drawMatrix(panel, each) : drawPlot(panel, each);
    const made = tag("div", { class: "panel" }, panel.title ? tag("p", { class: "panel-title" }, panel.title) : "", legendOf(panel), svg);
    made.style.width = `${each * zoom}px`;
    return made;
  }));
}
