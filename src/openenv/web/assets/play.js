// The page on which a person plays an environment.
import {at, call, drawParts, element, guarded, line, number} from "./common.js";

const LONGEST = 20000;  // characters of JSON that are shown
const resetButton = document.querySelector("[form=reset]");
let session = "new", tools = [], actions = [], isOver = true, isBusy = false, running = Promise.resolve();
let rewards = [], total = 0, numSteps = 0, history = new Map(), success = null;
const DRAW = 1e-9;  // the return of a success where any positive one is: 0 is a draw then

const verb = (method, path, body) => call(method, path, body, {"X-Session-Id": session});

// The value of each input of a form that is filled in. Throws an Error that names the field whose value cannot be.
function valuesOf(form) {
  const values = {};
  for (const input of form.querySelectorAll("[name]")) {
    input.removeAttribute("aria-invalid");
    const {kind} = input.dataset, text = input.value;
    if (text === "" && !input.validity.badInput && !(kind === "text" && input.required)) {
      if (input.required) refuse(input, "give a value");
      continue;
    }
    if (!input.validity.valid) refuse(input, input.validationMessage);
    values[input.name] = kind === "text" ? text : kind === "json" || kind === "choice" ? jsonOf(input) : Number(text);
  }
  return values;
}

function jsonOf(input) {
  input.removeAttribute("aria-invalid");
  try {
    return JSON.parse(input.value);
  } catch (error) {
    return refuse(input, `this is no JSON (${error.message}). Write texts in double quotes`);
  }
}

function objectOf(input) {
  const value = input.value.trim() === "" ? {} : jsonOf(input);
  if (value === null || typeof value !== "object" || Array.isArray(value)) refuse(input, 'give a JSON object, such as {"name": 1}');
  return value;
}

function refuse(input, reason) {
  input.setAttribute("aria-invalid", "true");
  input.focus();
  throw new Error(`${input.labels[0].firstChild.textContent.trim()}: ${reason}`);
}

// Run a request after those before it. Its error is shown in `alert`, and the inputs that it names are marked in `form`.
function act(alert, form, run) {
  running = running.then(() => attempt(alert, form, run));
}

async function attempt(alert, form, run) {
  isBusy = true;
  document.body.setAttribute("aria-busy", "true");
  try {
    await guarded(alert, run);
  } catch (error) {
    for (const name of error.fields || []) form?.querySelector(`[name="${CSS.escape(name)}"]`)?.setAttribute("aria-invalid", "true");
  } finally {
    isBusy = false;
    document.body.removeAttribute("aria-busy");
  }
}

function show(result) {
  session = result.session_id;
  isOver = Boolean(result.done);
  actions = result.actions;
  at("progress").replaceChildren(...(isOver ? [...outcome(), `Episode over: ${numSteps} ${numSteps === 1 ? "step" : "steps"}, return ${number(total)}`]
    : [numSteps ? `Step ${numSteps}` : "The episode begins"]));
  at("unseen").hidden = true;
  for (const id of ["rewards", "whole-observation", "past"]) at(id).hidden = false;
  at("reward").replaceChildren(result.reward === null ? "none" : `${number(result.reward)} `, ...(rewards.length > 1 ? [line(rewards, "reward")] : []));
  at("return").textContent = number(total);
  at("drawing").hidden = !result.drawing;
  if (result.drawing) at("drawing").src = `${result.drawing}?step=${numSteps}`;
  drawParts(at("observation"), result.view, history);
  const json = JSON.stringify({...result.observation, reward: result.reward, done: result.done}, null, 1);
  at("json").textContent = json.length > LONGEST ? `${json.slice(0, LONGEST)}\n... ${json.length - LONGEST} further characters` : json;
  showActions();
}

// Whether the episode is won, where the environment declares what a success is.
function outcome() {
  if (typeof success !== "number") return [];
  const [word, kind] = total >= success ? ["Won.", "good"] : success === DRAW && total === 0 ? ["Drawn.", ""] : ["Lost.", "bad"];
  return [element("span", {class: kind}, word), " "];
}

function showActions() {
  const hadFocus = at("actions").contains(document.activeElement) ? [...at("actions").children].indexOf(document.activeElement) : -1;
  at("actions").replaceChildren(...actions.map(([label, fields], index) => {
    const button = element("button", {type: "button", onclick: () => step(fields, label)}, label);
    if (index < 9) {
      button.setAttribute("aria-keyshortcuts", String(index + 1));
      button.append(element("kbd", {"aria-hidden": "true"}, String(index + 1)));
    }
    return button;
  }));
  if (hadFocus >= 0) (at("actions").children[Math.min(hadFocus, actions.length - 1)] || resetButton).focus();
  at("action-help").textContent = isOver ? "Reset to play again." : actions.length ? "Choose an action: the keys 1 to 9 are the first nine." : "Fill in the form, or call a tool.";
  for (const button of document.querySelectorAll("#step, .tool button")) button.disabled = isOver;
  if (at("form-box")) at("form-box").open = !isOver && (at("form-box").open || !actions.length);
}

function addStep(label, result) {
  const cells = [["number", numSteps || "reset"], ["", label], ["number", result.reward === null ? "" : number(result.reward)], ["number", number(total)]];
  at("steps").prepend(element("tr", {}, ...cells.map(([kind, text]) => element("td", {class: kind}, String(text)))));
  if (at("steps").children.length > 1000) at("steps").lastChild.remove();
}

// Take an action. A second one before the first is answered is a slip: its player has not seen the first one's result.
const step = (fields, label = JSON.stringify(fields), form = at("action")) => isBusy || act(at("action-alert"), form, async () => {
  const result = await verb("POST", "step", {action: fields});
  numSteps += 1;
  if (result.reward !== null) { rewards = [...rewards, result.reward].slice(-200); total += result.reward; }
  addStep(label, result);
  show(result);
});

at("reset").addEventListener("submit", event => {
  event.preventDefault();
  act(at("reset-alert"), at("reset"), async () => {
    const keywords = {...valuesOf(at("reset")), ...(at("keywords") ? objectOf(at("keywords")) : {})};
    const result = await verb("POST", "reset", keywords);
    rewards = []; total = 0; numSteps = 0; history = new Map();
    success = result.observation.metadata?.success_return;
    at("game").textContent = result.game ? `: ${result.game}` : "";
    document.title = document.querySelector("h1").textContent;
    at("steps").replaceChildren();
    at("action-alert").textContent = "";
    at("state").hidden = true;
    addStep(Object.keys(keywords).length ? JSON.stringify(keywords) : "", result);
    showTools(result.tools);
    if (at("form-box")) at("form-box").open = !result.actions.length;
    show(result);
    (at("actions").firstChild || document.querySelector(".tool [name], #action [name]"))?.focus();
  });
});

function showTools(listed) {
  if (JSON.stringify(listed) === JSON.stringify(tools)) return;
  tools = listed;
  at("tools").innerHTML = tools.map(tool => tool.form).join("");  // rendered and escaped by the server
  for (const form of at("tools").children) form.noValidate = true;
}

at("tools").addEventListener("submit", event => {
  event.preventDefault();
  const form = event.target, name = form.dataset.tool;
  try {
    const values = valuesOf(form);
    step({type: "call_tool", tool_name: name, arguments: values}, `${name} ${JSON.stringify(values)}`, form);
  } catch (error) {
    at("action-alert").textContent = error.message;
  }
});

at("action")?.addEventListener("submit", event => {
  event.preventDefault();
  try {
    step(at("whole") ? objectOf(at("whole")) : valuesOf(at("action")));
  } catch (error) {
    at("action-alert").textContent = error.message;
  }
});

at("show-state").addEventListener("click", () => act(at("reset-alert"), null, async () => {
  if (session === "new") throw new Error("Reset first: there is no episode yet.");
  at("state").textContent = JSON.stringify(await verb("GET", "state"), null, 1);
  at("state").hidden = false;
}));

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const chosen = /^[1-9]$/.test(event.key) && actions[Number(event.key) - 1];
  if (chosen && !isOver) { event.preventDefault(); step(chosen[1], chosen[0]); }
});

addEventListener("pagehide", () => {
  if (session !== "new") fetch("close", {method: "POST", headers: {"X-Session-Id": session}, keepalive: true});
  session = "new";
});

for (const button of [resetButton, at("show-state")]) button.disabled = false;  // before, the browser would submit it
