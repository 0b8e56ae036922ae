// What all pages draw: elements, errors, lines of numbers, and the parts of an observation.

export const at = id => document.getElementById(id);

// An element with properties (`class`, `aria-...` and `data-...` are attributes) and children. Texts are never HTML.
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && !name.includes("-")) made[name] = value;
    else if (value !== null && value !== undefined) made.setAttribute(name === "class" ? "class" : name, value);
  }
  made.append(...children);
  return made;
}

// The JSON of a response. Throws an Error whose message has each wrong field; `fields` has their names.
export async function call(method, path, body, headers = {}) {
  const type = body === undefined ? {} : {"Content-Type": "application/json"};
  const ask = () => fetch(path, {method, headers: {...type, ...headers}, body: body === undefined ? undefined : JSON.stringify(body)});
  let response;
  try {
    // Where a network interface comes or goes, as Docker's do, Chromium fails what is under way: reading may be asked again.
    response = await (method === "GET" ? ask().catch(ask) : ask());
  } catch {
    throw new Error("The server does not answer. Nothing was lost: try again when it runs.");
  }
  const text = await response.text();
  if (response.ok) return text ? JSON.parse(text) : null;
  if (response.status === 401) location.reload();
  let answer = {message: text};
  try { answer = JSON.parse(text); } catch {}
  const rows = Array.isArray(answer.detail) ? answer.detail : [];
  const error = new Error([answer.message || answer.detail || `status ${response.status}`,
    ...rows.map(row => `${(row.loc || []).join(".")}: ${row.msg}`)].join("\n"));
  error.fields = rows.map(row => String((row.loc || []).at(-1)));
  throw error;
}

// Show an error in an element with role=alert while `run` fails; clear it when it does not.
export async function guarded(alert, run) {
  alert.textContent = "";
  try {
    await run();
  } catch (error) {
    alert.textContent = error.message;
    throw error;
  }
}

export const SVG = "http://www.w3.org/2000/svg";

// A line of numbers, newest right.
export function line(values, label) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "line");
  svg.setAttribute("viewBox", "0 0 100 20");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${label}: ${values.length} values, from ${Math.min(...values)} to ${Math.max(...values)}`);
  const low = Math.min(...values), height = Math.max(...values) - low || 1;
  const points = values.map((value, index) => `${100 * index / Math.max(values.length - 1, 1)},${19 - 18 * (value - low) / height}`);
  const drawn = document.createElementNS(SVG, "polyline");
  drawn.setAttribute("points", points.join(" "));
  svg.append(drawn);
  return svg;
}

export const number = value => typeof value !== "number" ? String(value) : Number.isInteger(value) ? String(value) : value.toPrecision(4);

// Draw the parts of an observation, as `views.py` makes them, into an element: first what a person looks at, pictures and
// texts, then values, then what is folded away. `history` maps the name of a number to its values so far; the caller
// keeps it for an episode.
export function drawParts(target, parts, history) {
  const pictures = [], values = element("dl", {class: "values"}), texts = [], folded = [];
  for (const part of parts) {
    if (part.kind === "image") {
      pictures.push(element("h3", {}, part.name), element("img", {class: "frame", src: part.src, alt: `${part.name}, as the environment draws it`}));
    } else if (part.kind === "grid") {
      pictures.push(element("h3", {}, part.name), grid(part));
    } else if (part.kind === "number") {
      const past = [...(history.get(part.name) || []), part.value].slice(-200);
      history.set(part.name, past);
      values.append(element("dt", {}, part.name), element("dd", {}, `${number(part.value)} ${part.unit} `,
        ...(new Set(past).size > 1 ? [line(past, part.name)] : [])));
    } else if (part.kind === "details") {
      folded.push(element("details", {}, element("summary", {}, part.name), element("pre", {tabIndex: 0}, part.value)));
    } else if (part.value.includes("\n") || part.value.length > 80) {
      texts.push(element("h3", {}, part.name), element("pre", {tabIndex: 0}, part.value));
    } else {
      values.append(element("dt", {}, part.name), element("dd", {}, part.value));
    }
  }
  target.replaceChildren(...pictures, ...texts, ...(values.children.length ? [values] : []), ...folded);
}

// Give each cell of a table the title of its column: where the page is narrow, a row is a list of them.
export function labelCells(table) {
  const titles = [...table.tHead.rows[0].cells].map(cell => cell.textContent);
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, column) => { cell.dataset.label = titles[column]; });
}

// A board: equal cells have equal colours, the most frequent one has none.
function grid({name, rows}) {
  const counts = new Map();
  for (const cell of rows.flat()) counts.set(cell, (counts.get(cell) || 0) + 1);
  const kinds = [...counts].sort((a, b) => b[1] - a[1]).map(([cell]) => cell);
  const most = Math.max(rows[0].length, rows.length), size = most > 16 ? " small" : most <= 8 ? " large" : "";
  const label = `${name}: ${rows.length} rows, ${rows[0].length} columns`;
  return element("div", {class: "scroll", tabIndex: 0, role: "group", "aria-label": label},
    element("table", {class: `grid${size}`}, element("tbody", {},
      ...rows.map(row => element("tr", {}, ...row.map(cell => element("td", {class: `v${Math.min(kinds.indexOf(cell), 5)}`}, cell)))))));
}
