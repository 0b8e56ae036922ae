// A recorded episode on the page of an environment, stepped through without a server. It is loaded as a script, so that
// pages work where they are opened as files.

window.openenvEpisode = ({task, player, seed, steps}) => {
  const root = document.querySelector(".replay");
  const shown = element("div", {class: "observation"}), facts = element("dl", {class: "values"});
  const slider = element("input", {type: "range", min: "1", max: String(steps.length), value: "1", "aria-label": "Step"});
  const back = element("button", {type: "button", "aria-label": "Back"}, "◀");
  const forward = element("button", {type: "button", "aria-label": "Forward"}, "▶");
  const show = index => {
    const step = steps[index];
    const total = steps.slice(0, index + 1).reduce((sum, one) => sum + (one.reward || 0), 0);
    const rows = [["step", `${index} of ${steps.length - 1}`], [index ? "action" : "begun by", step.action],
      ["reward", step.reward === null ? "none" : number(step.reward)], ["return so far", number(total)],
      ...(step.done ? [["episode", "is over"]] : [])];
    facts.replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
    drawParts(shown, step.parts, new Map());
    slider.value = String(index + 1);
    slider.setAttribute("aria-valuetext", `step ${index}`);
    back.disabled = index === 0;
    forward.disabled = index === steps.length - 1;
  };
  let playing = null;
  const play = element("button", {type: "button", "aria-pressed": "false"}, "Play");
  play.onclick = () => {
    if (playing) clearInterval(playing);
    else if (slider.valueAsNumber === steps.length) show(0);
    playing = playing ? null : setInterval(() => slider.valueAsNumber < steps.length ? show(slider.valueAsNumber) : play.click(), 400);
    play.setAttribute("aria-pressed", String(playing !== null));
  };
  slider.oninput = () => show(slider.valueAsNumber - 1);
  back.onclick = () => show(slider.valueAsNumber - 2);
  forward.onclick = () => show(slider.valueAsNumber);
  root.replaceChildren(element("p", {}, `Task ${task}, seed ${seed}, played by ${player}.`),
    element("div", {class: "steps"}, back, slider, forward, play), element("div", {class: "both"}, facts, shown));
  show(0);
};
