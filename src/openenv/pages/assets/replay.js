// A recorded session and its replay, request by request.
import {at, call, drawParts, element, guarded, number} from "../common.js";
import {LineChart} from "../chart.js";
import {Stepper} from "./stepper.js";

const HISTORY = 50;

const chart = new LineChart(at("chart"), {label: "Return so far", xLabel: "request", onPick: x => steps.go(x - 1)});
const steps = new Stepper(at("steps"), {
  load: index => call("GET", `requests/${index}`), show, onError: error => { at("alert").textContent = error.message; }});

function show(index, request) {
  at("alert").textContent = "";
  const facts = [["verb", request.verb], ...Object.entries(request.data), ["line of the file", String(index + 2)],
    ...(request.reward === null ? [] : [["reward", number(request.reward)]]), ["return so far", number(request.return)],
    ...(request.done ? [["episode", "is over"]] : []), ...(["", "valid"].includes(request.validity) ? [] : [["validity", request.validity]]),
    ...(request.message ? [["message", request.message]] : [])];
  at("request").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  at("differences").hidden = request.differences.length === 0;
  at("differences").replaceChildren(...request.differences.map(text => element("li", {}, text)));
  at("observation").replaceChildren();
  drawParts(at("observation"), request.parts, history(index));
  if (!request.parts.length) at("observation").append(element("p", {class: "faint"}, "This request has no observation."));
  chart.readAt(index + 1);
}

// The numbers of the requests before this one, as far as they were loaded.
function history(index) {
  const past = new Map();
  for (const {parts} of steps.loadedBefore(index, HISTORY)) {
    for (const part of parts) if (part.kind === "number") past.set(part.name, [...(past.get(part.name) || []), part.value]);
  }
  return past;
}

guarded(at("alert"), async () => {
  const all = await call("GET", "requests");
  steps.marks = Object.keys(all.differences).map(Number).sort((a, b) => a - b);
  at("differing").textContent = steps.marks.length
    ? `${steps.marks.length} of ${all.verbs.length} requests differ from the recording, the first is request ${steps.marks[0] + 1}.`
    : all.verbs.length ? "All requests are as recorded." : "The recording has no request: its session did nothing.";
  at("differing").className = steps.marks.length ? "bad" : all.verbs.length ? "good" : "";
  at("some").hidden = at("steps").hidden = !all.verbs.length;
  at("list").hidden = steps.marks.length === 0;
  at("list").querySelector("ol").append(...steps.marks.map(index => element("li", {value: index + 1},
    element("a", {href: `#${index + 1}`}, `${all.verbs[index]}: ${all.differences[index].map(text => text.split(" was ")[0]).join(", ")}`))));
  chart.draw([{name: "return", points: all.returns.map((total, index) => [index + 1, total])}], steps.marks.map(index => index + 1));
  steps.grow(all.verbs.length);
}).catch(() => {});
