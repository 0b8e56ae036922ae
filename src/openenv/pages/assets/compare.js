// The results of an evaluation while it runs, and two policies beside each other on one seed.
import {at, call, drawParts, element, guarded, labelCells, number} from "../common.js";
import {intervals} from "../chart.js";
import {Stepper} from "./stepper.js";

const POLL_MS = 1000, MATCH_MS = 300, HISTORY = 50;
const SIDES = [0, 1];

let rows = [], match = null;

const percent = value => `${(100 * value).toFixed(1)} %`;
const between = (ends, text) => ends.includes(null) ? "" : ` (${ends.map(text).join(" to ")})`;
const tried = (alert, run) => guarded(at(alert), run).catch(() => {});

function table() {
  at("results").tBodies[0].replaceChildren(...rows.map((row, index) => element("tr", {},
    element("td", {}, row.place ?? ""),
    element("th", {scope: "row"}, element("span", {class: `swatch s${index % 8}`}), row.name),
    ...[row.win_rate === null ? "" : percent(row.win_rate) + between(row.win_interval, percent),
      row.mean_return === null ? "" : number(row.mean_return) + between(row.return_interval, number),
      row.mean_steps === null ? "" : row.mean_steps.toFixed(1), `${row.played} of ${row.wanted}`].map(text => element("td", {class: "number"}, text)),
    element("td", {}, row.problems))));
  labelCells(at("results"));
  draw();
}

// A plot of one value of each policy, once a policy has it.
function plot(id, value, interval, axis) {
  at(id).toggleAttribute("hidden", rows.every(row => value(row) === null));
  intervals(at(id), rows.map((row, index) => ({name: row.name, colour: index, value: value(row), interval: value(row) === null ? [] : interval(row)})), axis);
}

function draw() {
  plot("win-rates", row => row.win_rate, row => row.win_interval, {label: "Win rate", low: 0, high: 1});
  plot("returns", row => row.mean_return, row => row.return_interval, {label: "Mean return"});
  at("no-values").hidden = rows.some(row => row.mean_return !== null);
}

const isOver = () => rows.length > 0 && rows.every(row => row.played >= row.wanted);

async function live() {
  if (!document.hidden) await tried("alert", async () => { rows = await call("GET", "results"); table(); });
  if (!isOver()) setTimeout(live, POLL_MS);
}

const steps = new Stepper(at("steps"), {
  load: index => call("GET", `matches/${match}/turns/${index}`), show, fragment: false,
  onError: error => { at("match-alert").textContent = error.message; }});

function show(index, turns) {
  for (const side of SIDES) {
    const turn = turns[side];
    if (!turn) continue;
    const facts = [["action", turn.turn ? turn.action : "reset"], ...(turn.reward === null ? [] : [["reward", number(turn.reward)]]),
      ...(turn.return === null ? [] : [["return", number(turn.return)]]), ...(turn.turn < index ? [["episode", `ended at step ${turn.turn + 1}`]] : turn.done ? [["episode", "is over"]] : [])];
    at(`turn-${side}`).replaceChildren(...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
    drawParts(at(`observation-${side}`), turn.parts, history(index, side));
  }
}

// The numbers of a side's turns before this one, as far as they were loaded.
function history(index, side) {
  const past = new Map();
  for (const turns of steps.loadedBefore(index, HISTORY)) {
    for (const part of turns[side]?.parts || []) if (part.kind === "number") past.set(part.name, [...(past.get(part.name) || []), part.value]);
  }
  return past;
}

// Follow a match until it is over. Its steps can be gone through meanwhile, as far as both sides have them.
async function follow(number) {
  if (match !== number) return;
  const state = await call("GET", `matches/${number}`);
  if (match !== number) return;  // another match has begun meanwhile
  const lengths = state.sides.map(side => side.turns);
  SIDES.forEach(side => {
    const {policy, turns, outcome, reason} = state.sides[side];
    at(`name-${side}`).textContent = policy;
    at(`outcome-${side}`).textContent = outcome ? `${outcome}, ${Math.max(turns - 1, 0)} steps${reason ? `: ${reason}` : ""}` : state.is_over ? "ended by an error" : "plays ...";
    at(`outcome-${side}`).className = {won: "good", lost: "bad"}[outcome] || "";
  });
  at("played").hidden = false;
  const isSide = state.sides.every(side => side.outcome) || state.is_over;
  steps.grow(isSide ? Math.max(...lengths) : Math.min(...lengths.filter((_, side) => !state.sides[side].outcome)));
  if (state.problem) throw new Error(state.problem);
  if (!state.is_over) setTimeout(() => tried("match-alert", () => follow(number)), MATCH_MS);
}

at("match").noValidate = true;
at("match").onsubmit = event => {
  event.preventDefault();
  tried("match-alert", async () => {
    const seed = at("seed");
    seed.removeAttribute("aria-invalid");
    if (!seed.checkValidity()) {
      seed.setAttribute("aria-invalid", "true");
      seed.focus();
      throw new Error("Seed: give a whole number from 0.");
    }
    const policies = SIDES.map(side => Number(at(`policy-${side}`).value));
    const begun = await call("POST", "matches", {policies, seed: seed.valueAsNumber});
    match = begun.match;
    steps.clear();
    at("played").hidden = true;
    await follow(match);
  });
};

new ResizeObserver(() => rows.length && draw()).observe(at("results"));
live();
