// Charts as SVG: lines over numbers, and values with their intervals. Each has its numbers as text, too.
import {SVG, element, number} from "./common.js";

const COLOURS = 8, MOST_ROWS = 200, LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 36;
const NAME_WIDTH = 7, NAME_HEIGHT = 14;  // pixels of a letter, at most, and of a line of a name

function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const rounded = value => String(parseFloat(value.toPrecision(6)));
const known = value => typeof value === "number" && Number.isFinite(value);

// At most `most` round numbers from low to high, 1, 2 or 5 times a power of ten apart.
function ticks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= rough * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9), count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({length: count}, (_, i) => parseFloat(((first + i) * step).toPrecision(10)));
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return [0, 1];
  const gap = (high - low) * .05 || Math.max(Math.abs(high), 1) * .05;
  return [low - gap, high + gap];
}

// The place of the number in a sorted list that is nearest to x.
function nearest(sorted, x) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - sorted[low - 1] <= sorted[low] - x ? low - 1 : low;
}

// Each point's y as the mean of the `width` points that end with it.
export function smoothed(points, width) {
  let sum = 0, count = 0;
  return points.map(([x, y], index) => {
    if (known(y)) { sum += y; count += 1; }
    const left = index >= width ? points[index - width][1] : null;
    if (known(left)) { sum -= left; count -= 1; }
    return [x, count ? sum / count : null];
  });
}

// Lines over x. `onPick` is called with the x of a click; without it the chart has a slider of its own to read values.
export class LineChart {
  #series = []; #marks = []; #xs = []; #place = null; #values = []; #axes = null;

  // none: what stands in place of a chart without values. yRange: of the y axis; null fits the data.
  constructor(target, {label, xLabel, none = "", onPick = null, yRange = null}) {
    this.label = label; this.xLabel = xLabel; this.onPick = onPick; this.yRange = yRange;
    this.svg = drawn("svg", {class: "chart", role: "img"});
    this.legend = element("ul", {class: "legend"});
    this.slider = element("input", {type: "range", min: 0, max: 0, step: 1});
    this.where = element("output", {class: "where"});
    this.table = element("table");
    this.rows = element("details", {}, element("summary", {}, "Values as a table"),
      element("div", {class: "scroll", tabIndex: 0, role: "group", "aria-label": "Values"}, this.table));
    this.none = element("p", {class: "faint", hidden: true}, none);
    this.parts = [this.svg, this.legend, ...(onPick ? [] : [element("label", {class: "read"},
      element("span", {}, `Read at ${xLabel}`), this.slider, this.where)]), this.rows];
    target.replaceChildren(this.none, ...this.parts);
    this.slider.oninput = () => this.#read(this.slider.valueAsNumber);
    this.rows.ontoggle = () => this.#tabulate();
    this.svg.onpointermove = event => this.#read(this.#placeAt(event));
    if (onPick) this.svg.onclick = event => this.#xs.length && onPick(this.#xs[this.#placeAt(event)]);
    new ResizeObserver(() => this.#draw()).observe(this.svg);
  }

  // Draw series of `name`, `points` ([x, y], a gap where y is null), `colour` (its number), `faint` points behind them,
  // and `intervals` ([x, low, high], upright lines). marks: x of things to see.
  draw(series, marks = []) {
    const follows = this.#place === null || this.#place === this.#xs.length - 1;
    this.#series = series;
    this.#marks = marks;
    this.#xs = [...new Set(series.flatMap(one => one.points.map(([x]) => x)))].sort((a, b) => a - b);
    this.#values = series.map(one => new Map(one.points));
    const last = this.#xs.length - 1;
    this.none.hidden = last >= 0;
    for (const part of this.parts) part.toggleAttribute("hidden", last < 0);
    this.slider.max = Math.max(last, 0);
    this.#place = last < 0 ? null : follows ? last : Math.min(this.#place, last);
    this.legend.replaceChildren(...series.map((one, index) => element("li", {},
      element("span", {class: `swatch s${(one.colour ?? index) % COLOURS}`}), `${one.name} `, element("b"))));
    this.#draw();
    this.#tabulate();
    if (this.#place !== null) this.#read(this.#place);
  }

  // Show the values at x.
  readAt(x) {
    if (this.#xs.length) this.#read(nearest(this.#xs, x));
  }

  #placeAt(event) {
    const box = this.svg.getBoundingClientRect(), [low, high] = this.#axes.x;
    return nearest(this.#xs, low + (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * (high - low));
  }

  #read(place) {
    if (!this.#axes || place < 0 || place >= this.#xs.length) return;
    this.#place = place;
    const x = this.#xs[place], at = this.#axes.place(x, 0)[0];
    const texts = this.#values.map(values => known(values.get(x)) ? number(values.get(x)) : "none");
    this.slider.value = place;
    this.slider.setAttribute("aria-valuetext", [`${this.xLabel} ${x}`, ...this.#series.map((one, i) => `${one.name} ${texts[i]}`)].join(", "));
    this.where.textContent = rounded(x);
    [...this.legend.children].forEach((item, index) => { item.querySelector("b").textContent = texts[index]; });
    this.svg.querySelector(".cursor").replaceChildren(
      drawn("line", {x1: at, x2: at, y1: TOP, y2: this.#axes.height - BOTTOM}),
      ...this.#series.flatMap((one, index) => known(this.#values[index].get(x)) ? [drawn("circle", {
        class: `s${(one.colour ?? index) % COLOURS}`, cx: at, cy: this.#axes.place(x, this.#values[index].get(x))[1], r: 4})] : []));
  }

  #draw() {
    const width = this.svg.clientWidth, height = this.svg.clientHeight;
    if (!width || !height) return;
    const ys = this.#series.flatMap(one => [...one.points, ...(one.faint || []), ...(one.intervals || [])].flatMap(([, ...y]) => y).filter(known));
    const low = this.#xs[0] ?? 0, high = this.#xs.at(-1) ?? 1;
    const x = low < high ? [low, high] : [low - 1, high + 1], y = this.yRange || range(ys);
    const place = (a, b) => [LEFT + (a - x[0]) / (x[1] - x[0]) * (width - LEFT - RIGHT),
      height - BOTTOM - (b - y[0]) / (y[1] - y[0]) * (height - TOP - BOTTOM)];
    this.#axes = {x, y, place, height};
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("aria-label", this.#summary());
    this.svg.replaceChildren(
      ...ticks(...y, 5).flatMap(value => [
        drawn("line", {class: "rule", x1: LEFT, x2: width - RIGHT, y1: place(0, value)[1], y2: place(0, value)[1]}),
        drawn("text", {x: LEFT - 6, y: place(0, value)[1] + 4, "text-anchor": "end"}, rounded(value))]),
      ...ticks(...x, Math.max(4, Math.floor(width / 90))).map(value =>
        drawn("text", {x: place(value, 0)[0], y: height - BOTTOM + 15, "text-anchor": "middle"}, rounded(value))),
      drawn("text", {x: width - RIGHT, y: height - 5, "text-anchor": "end"}, this.xLabel),
      ...this.#marks.map(at => drawn("line", {class: "mark", x1: place(at, 0)[0], x2: place(at, 0)[0], y1: TOP, y2: height - BOTTOM})),
      ...this.#series.flatMap((one, index) => {
        const colour = (one.colour ?? index) % COLOURS;
        return [...(one.faint ? [drawn("path", {class: `s${colour} faint`, d: path(one.faint, place)})] : []),
          ...(one.intervals || []).map(([at, from, to]) => drawn("line", {class: `interval s${colour}`, x1: place(at, 0)[0], x2: place(at, 0)[0], y1: place(0, from)[1], y2: place(0, to)[1]})),
          drawn("path", {class: `s${colour}`, d: path(one.points, place)})];
      }),
      drawn("g", {class: "cursor"}));
    if (this.#place !== null) this.#read(this.#place);
  }

  #summary() {
    const parts = this.#series.map(one => {
      const values = one.points.filter(([, y]) => known(y));
      return values.length ? `${one.name}: ${values.length} values, from ${number(values[0][1])} to ${number(values.at(-1)[1])}` : `${one.name}: no values`;
    });
    return `${this.label}. ${parts.join("; ") || "Nothing to draw"}`;
  }

  #tabulate() {
    if (!this.rows.open) return;
    const every = Math.ceil(this.#xs.length / MOST_ROWS) || 1;
    const shown = this.#xs.filter((_, index) => index % every === 0 || index === this.#xs.length - 1);
    this.table.replaceChildren(
      ...(every > 1 ? [element("caption", {class: "faint"}, `every ${every}th of ${this.#xs.length} rows`)] : []),
      element("thead", {}, element("tr", {}, element("th", {scope: "col", class: "number"}, this.xLabel),
        ...this.#series.map(one => element("th", {scope: "col", class: "number"}, one.name)))),
      element("tbody", {}, ...shown.map(x => element("tr", {}, element("th", {scope: "row", class: "number"}, rounded(x)),
        ...this.#values.map(values => element("td", {class: "number"}, known(values.get(x)) ? number(values.get(x)) : ""))))));
  }
}

function path(points, place) {
  let isDown = false;
  return points.map(([x, y]) => {
    if (!known(y)) { isDown = false; return ""; }
    const at = place(x, y).map(pixels => pixels.toFixed(1)).join(" ");
    const command = isDown ? `L${at}` : `M${at}h0`;  // a point alone is a dot
    isDown = true;
    return command;
  }).join("");
}

// Values with their intervals, a row for each, between low and high (null: what the rows need).
export function intervals(svg, rows, {label, low = null, high = null}) {
  if (!svg.clientWidth) return;  // it is not shown
  const width = svg.clientWidth, longest = Math.max(8, Math.floor((width - 2 * RIGHT) / NAME_WIDTH));
  const names = rows.map(row => row.name.match(new RegExp(`.{1,${longest}}`, "gsu")) || [""]);
  const heights = names.map(lines => NAME_HEIGHT * lines.length + 20);
  const height = heights.reduce((sum, one) => sum + one, 0) + BOTTOM;
  const ends = rows.flatMap(row => [row.value, ...row.interval]).filter(known);
  const [from, to] = low === null ? range([0, ...ends]) : [low, high];
  const place = x => 2 * RIGHT + (Math.min(Math.max(x, from), to) - from) / (to - from) * (width - 4 * RIGHT);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${label}. ${rows.map(row => `${row.name}: ${known(row.value) ? number(row.value) : "none yet"}`).join("; ")}`);
  svg.replaceChildren(
    ...ticks(from, to, Math.max(2, Math.floor(width / 90))).flatMap(value => [
      drawn("line", {class: "rule", x1: place(value), x2: place(value), y1: 4, y2: height - BOTTOM}),
      drawn("text", {x: place(value), y: height - BOTTOM + 15, "text-anchor": "middle"}, rounded(value))]),
    drawn("text", {x: width - RIGHT, y: height - 5, "text-anchor": "end"}, label),
    ...rows.flatMap((row, index) => {
      const top = heights.slice(0, index).reduce((sum, one) => sum + one, 0), y = top + heights[index] - 10, colour = `s${row.colour % COLOURS}`;
      const name = drawn("text", {class: "name"}, ...names[index].map((line, place) =>
        drawn("tspan", {x: RIGHT, y: top + NAME_HEIGHT * (place + 1)}, line)));
      if (!known(row.value)) return [name];
      const [start, end] = row.interval.map((x, side) => known(x) ? x : side ? to : from);
      return [name, drawn("line", {class: `interval ${colour}`, x1: place(start), x2: place(end), y1: y, y2: y}),
        drawn("circle", {class: colour, cx: place(row.value), cy: y, r: 5})];
    }));
}
