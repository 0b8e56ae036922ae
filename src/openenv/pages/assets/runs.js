// The runs of a folder: polls what has grown, and draws it.
import {at, call, element, guarded, labelCells, number} from "../common.js";
import {LineChart, smoothed} from "../chart.js";

const POLL_MS = 1000;

let runs = [], titles = {}, isChosen = false, offset = 0, searches = 0, comparisons = 0, searched;
const chosen = new Set();
const curves = new Map();  // by run and metric
const colours = new Map();  // by run: a run keeps its colour
const query = parts => Object.entries(parts).flatMap(([key, value]) => [value].flat().map(one => `${key}=${encodeURIComponent(one)}`)).join("&");
const chart = new LineChart(at("chart"), {label: "Curves", xLabel: "step",
  none: "No values to draw yet: choose a run above, or wait for its first step."});

function colour(name) {
  if (!colours.has(name)) colours.set(name, colours.size);
  return colours.get(name);
}

// What is chosen is in the URL's fragment, so that a reload and a link show it again.
function remember() {
  history.replaceState(null, "", `#${query({run: [...chosen], metric: at("metric").value, mean: at("smoothing").value})}`);
}

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const name of kept.getAll("run")) chosen.add(name);
  isChosen = chosen.size > 0;
  at("metric").dataset.wanted = kept.get("metric") || "reward";
  at("smoothing").value = kept.get("mean") || 1;
  at("smoothing-steps").textContent = at("smoothing").value;
}

const names = () => runs.filter(run => chosen.has(run.name) && !run.problem).map(run => run.name);

async function poll() {
  const answer = await call("GET", "runs");
  runs = answer.runs;
  titles = answer.titles;
  if (!isChosen && runs.length) {
    chosen.add(runs[0].name);
    isChosen = true;
  }
  list();
  fill(at("metric"), [...new Set(runs.filter(run => chosen.has(run.name)).flatMap(run => run.metrics || []))].map(key => [key, titles[key] ? `${titles[key]} (${key})` : key]));
  fill(at("of"), names().map(name => [name, name]));
  await notice();
  await grow();
}

// Show the first transcripts at once. A person may be reading others: then offer the newer ones.
async function notice() {
  const size = bytes();
  if (size === searched) return;
  if (at("transcripts").children.length) at("newer").hidden = false; else await search(false);
}

const bytes = () => (runs.find(run => run.name === at("of").value) || {}).transcript_bytes;

// The options of a select, changed only where they differ: a person may have it open.
function fill(select, options) {
  const wanted = select.value || select.dataset.wanted || "";
  const before = [...select.options].map(option => option.value).join("\n");
  if (before === options.map(([value]) => value).join("\n")) return;
  select.replaceChildren(...options.map(([value, text]) => element("option", {value, selected: value === wanted}, text)));
  select.dispatchEvent(new Event("refilled"));
}

function ago(seconds) {
  const past = Math.max(0, Math.round(Date.now() / 1000 - seconds));
  return past < 120 ? `${past} s ago` : past < 7200 ? `${Math.round(past / 60)} min ago` : past < 172800 ? `${Math.round(past / 3600)} h ago` : `${Math.round(past / 86400)} days ago`;
}

function list() {
  const body = at("runs").tBodies[0];
  at("none").hidden = runs.length > 0;
  at("some").hidden = runs.length === 0;
  const rows = new Map([...body.rows].map(row => [row.dataset.run, row]));
  body.append(...runs.map(run => {
    const row = rows.get(run.name) || listed(run.name);
    rows.delete(run.name);
    const [state, steps, reward, changed, results] = [...row.cells].slice(2);
    row.querySelector("input").checked = chosen.has(run.name);
    row.querySelector("input").disabled = Boolean(run.problem);
    const isFailed = run.state === "failed", collapse = run.collapse ? `, collapsed: ${run.collapse}` : "";
    state.textContent = run.problem ? `not readable: ${run.problem}` : (isFailed ? `failed: ${run.failure}` : run.state) + collapse;
    state.className = run.problem || isFailed || collapse ? "bad" : run.state === "running" ? "good" : "";
    if (run.problem) return row;
    steps.textContent = run.wanted ? `${run.steps} of ${run.wanted}` : run.steps;
    reward.textContent = run.reward === null || run.reward === undefined ? "" : number(run.reward);
    changed.replaceChildren(ago(run.changed), ...(run.state === "running" ? run.waits : []).map(wait => element("small", {}, wait)));
    results.replaceChildren(...run.results.filter(result => result.mean_return !== null).slice(-2).map(result =>
      element("small", {}, `${result.player}: ` + (result.win_rate === null ? `return ${number(result.mean_return)}` : `${(100 * result.win_rate).toFixed(1)} % won`))),
      ...(run.has_report ? [element("a", {href: `report?${query({run: run.name})}`}, "report")] : []));
    return row;
  }).filter((row, place) => body.rows[place] !== row));
  for (const row of rows.values()) row.remove();
  labelCells(at("runs"));
}

function listed(name) {
  const box = element("input", {type: "checkbox", "aria-label": `Show ${name}`});
  box.onchange = () => {
    if (box.checked) chosen.add(name); else chosen.delete(name);
    isChosen = true;
    refresh();
  };
  const swatch = element("span", {class: `swatch s${colour(name) % 8}`});
  return element("tr", {"data-run": name}, element("td", {}, box), element("th", {scope: "row"}, swatch, name), element("td"),
    element("td", {class: "number"}), element("td", {class: "number"}), element("td"), element("td"));
}

// Fetch the points that are new, and draw.
async function grow() {
  const metric = at("metric").value;
  if (metric) {
    await Promise.all(names().map(async name => {
      const key = JSON.stringify([name, metric]);
      const curve = curves.get(key) || {generation: -1, points: []};
      const grown = await call("GET", `curve?${query({run: name, metric, generation: curve.generation, after: curve.points.length})}`);
      curves.set(key, {generation: grown.generation, points: [...curve.points.slice(0, grown.first), ...grown.points]});
    }));
  }
  draw();
}

function draw() {
  const metric = at("metric").value, width = at("smoothing").valueAsNumber;
  const shown = names().map(name => [name, curves.get(JSON.stringify([name, metric]))]).filter(([, curve]) => curve).map(([name, {points}]) =>
    [name, {points: metric.startsWith("eval/") ? points.filter(([, y]) => y !== null) : points}]);  // few steps are evaluated
  chart.label = titles[metric] || metric;
  chart.draw(shown.map(([name, {points}]) => width > 1
    ? {name, colour: colour(name), points: smoothed(points, width), faint: points} : {name, colour: colour(name), points}),
    runs.filter(run => shown.some(([name]) => name === run.name)).flatMap(run => (run.collapses || []).map(([step]) => step)));
}

async function search(isMore) {
  const ordinal = ++searches;
  if (!at("of").value) {
    at("found").textContent = "Choose a run above.";
    at("transcripts").replaceChildren();
    at("more").hidden = true;
    return;
  }
  const first = isMore ? offset : 0;
  if (!isMore) {
    searched = bytes();
    at("newer").hidden = true;
  }
  const words = at("text").value;
  const answer = await call("GET", `transcripts?${query({run: at("of").value, outcome: at("outcome").value, text: words, offset: first})}`);
  if (ordinal !== searches) return;  // a later search has begun meanwhile
  offset = first + answer.transcripts.length;
  const drawn = answer.transcripts.map(one => transcript(one, words));
  if (isMore) at("transcripts").append(...drawn); else at("transcripts").replaceChildren(...drawn);
  at("found").textContent = answer.total ? `${answer.found} of ${answer.total} transcripts, ${offset} shown, newest first` : "This run has no transcripts yet.";
  at("more").hidden = offset >= answer.found;
}

// A text in which the words that were searched for are marked.
function marked(text, words) {
  const parts = [], lower = text.toLowerCase(), wanted = words.toLowerCase();
  let from = 0;
  if (wanted && lower.length === text.length) {
    for (let found = lower.indexOf(wanted); found >= 0; found = lower.indexOf(wanted, from)) {
      parts.push(text.slice(from, found), element("mark", {}, text.slice(found, found + wanted.length)));
      from = found + wanted.length;
    }
  }
  return [...parts, text.slice(from)];
}

function transcript(one, words) {
  const title = `Step ${one.step}: ${one.outcome}${one.reward === null ? "" : `, reward ${number(one.reward)}`}`;
  const facts = [`seed ${one.seed}`, `group ${one.group}`, one.return === null ? "" : `return ${number(one.return)}`].filter(Boolean).join(", ");
  const turns = one.turns.flatMap(turn => [
    element("pre", {tabIndex: 0}, ...marked(turn.prompt, words)),
    element("p", {}, element("b", {}, ...marked(turn.reply || "(nothing)", words)),
      element("span", {class: "faint"}, ...marked([turn.action === null ? "no legal action" : `action ${turn.action}`, `reward ${turn.reward === null ? "none" : number(turn.reward)}`,
        ...(turn.advantage === null ? [] : [`advantage ${number(turn.advantage)}`])].join(", "), words)))]);
  return element("article", {}, element("h3", {class: {won: "good", lost: "bad"}[one.outcome] || ""}, title), element("p", {class: "faint"}, facts),
    ...(one.reason ? [element("p", {}, ...marked(one.reason, words))] : []),
    element("details", {open: turns.length <= 6 || Boolean(words)}, element("summary", {}, `${one.turns.length} ${one.turns.length === 1 ? "turn" : "turns"}`), ...turns));
}

async function compare() {
  const ordinal = ++comparisons, of = names(), table = at("settings"), all = document.querySelector("[name=keys]:checked").value === "all";
  const rows = of.length ? await call("GET", `settings?${query({run: of})}`) : [];
  if (ordinal !== comparisons) return;  // a later one has begun meanwhile
  const shown = rows.filter(row => all || row.differ);
  table.tHead.replaceChildren(element("tr", {}, element("th", {scope: "col"}, "Setting"), ...of.map(name => element("th", {scope: "col"}, name))));
  table.tBodies[0].replaceChildren(...shown.map(row => element("tr", {class: row.differ && all ? "differ" : ""},
    element("th", {scope: "row"}, row.key), ...row.values.map(value => element("td", {}, value === null ? "" : value)))));
  labelCells(table);
  table.hidden = shown.length === 0;
  at("equal").hidden = shown.length > 0;
  at("equal").textContent = of.length > 1 ? "All settings are equal." : "Choose two runs or more above to see where they differ.";
}

const tried = run => guarded(at("alert"), run).catch(() => {});

function refresh() {
  remember();
  tried(async () => {
    fill(at("of"), names().map(name => [name, name]));
    await grow();
    await compare();
  });
}

async function live() {
  if (!document.hidden) await tried(poll);
  setTimeout(live, POLL_MS);
}

recall();
at("metric").onchange = refresh;
at("smoothing").oninput = () => {
  at("smoothing-steps").textContent = at("smoothing").value;
  remember();
  draw();
};
at("search").onsubmit = event => { event.preventDefault(); tried(() => search(false)); };
at("outcome").onchange = () => tried(() => search(false));
at("of").onchange = () => tried(() => search(false));
at("of").addEventListener("refilled", () => tried(async () => { await search(false); await compare(); }));
at("newer").onclick = () => tried(() => search(false));
at("more").onclick = () => tried(() => search(true));
for (const choice of document.querySelectorAll("[name=keys]")) choice.onchange = () => tried(compare);
live();
