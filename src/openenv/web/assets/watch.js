// The page on which a person watches the sessions of a server.
import {at, call, drawParts, element, number} from "./common.js";

const LIST_MS = 2000, MOST_ROWS = 300;
let socket = null, watched = null, total = 0, numDropped = 0, history = new Map();

const age = seconds => seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;

async function list() {
  try {
    const sessions = await call("GET", "watch/sessions");
    at("list-alert").textContent = "";
    at("none").hidden = sessions.length > 0;
    const focused = document.activeElement?.dataset?.watch;
    at("sessions").replaceChildren(...sessions.map(one => element("button", {
      type: "button", "data-watch": one.watch_id, "aria-pressed": String(one.watch_id === watched), onclick: () => watch(one.watch_id),
    }, `${one.watch_id.slice(0, 8)}: ${one.steps} ${one.steps === 1 ? "step" : "steps"}, open for ${age(one.age_s)}, idle for ${age(one.idle_s)}`)));
    if (focused) at("sessions").querySelector(`[data-watch="${CSS.escape(focused)}"]`)?.focus();
  } catch (error) {
    at("list-alert").textContent = error.message;
  }
  setTimeout(list, LIST_MS);
}

function watch(id) {
  socket?.close();
  watched = id; total = 0; numDropped = 0; history = new Map();
  at("watched").textContent = `Session ${id.slice(0, 8)}`;
  at("watch-alert").textContent = at("dropped").textContent = "";
  at("totals").hidden = at("past").hidden = false;
  at("verbs").replaceChildren();
  at("observation").replaceChildren();
  for (const button of at("sessions").children) button.setAttribute("aria-pressed", String(button.dataset.watch === id));
  const url = new URL("watch/live", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.searchParams.set("session_id", id);
  const own = socket = new WebSocket(url);
  own.addEventListener("message", event => { if (own === socket) show(JSON.parse(event.data)); });
  own.addEventListener("close", event => {
    if (own === socket && !event.wasClean) at("watch-alert").textContent = "The connection broke. Choose the session again.";
  });
}

function show(message) {
  if (message.ended) {
    at("watch-alert").textContent = message.message;
    return;
  }
  at("num-steps").textContent = message.steps;
  for (const verb of message.verbs) {
    if (verb.verb === "reset") { total = 0; history = new Map(); }
    if (typeof verb.reward === "number") total += verb.reward;
    const shown = verb.error ?? (typeof verb.reward === "number" ? number(verb.reward) + (verb.done ? ", over" : "") : "");
    at("verbs").prepend(element("tr", {}, element("td", {}, verb.verb), element("td", {}, verb.data),
      element("td", {class: verb.error ? "bad" : "number"}, shown)));
  }
  while (at("verbs").children.length > MOST_ROWS) at("verbs").lastChild.remove();
  numDropped += message.num_dropped;
  if (numDropped) at("dropped").textContent = `${numDropped} verbs came faster than they are shown. The return leaves them out.`;
  at("return").textContent = number(total);
  if (message.game) at("watched").textContent = `Session ${watched.slice(0, 8)}: ${message.game}`;
  if (message.view) drawParts(at("observation"), message.view, history);
}

list();
