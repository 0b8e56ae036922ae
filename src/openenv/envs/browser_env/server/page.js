// Runs in a task's page before the page's own scripts. It gives the page a clock that passes only when `settle` lets
// it, and gives the server `openenv`, the object whose functions it calls.
(() => {
  "use strict";
  const START_MS = Date.UTC(2016, 9, 3, 12); // noon of a Monday
  const FRAME_MS = 16;
  const nextFrame = window.requestAnimationFrame.bind(window);
  const RealDate = Date;
  const timers = new Map();
  const errors = [];
  let now = START_MS, lastTimer = 0, copied = "";

  function schedule(run, delay, every) {
    timers.set(++lastTimer, { at: now + Math.max(1, Number(delay) || 0), every, run });
    return lastTimer;
  }

  window.setTimeout = (callback, delay, ...args) => schedule(() => callback(...args), delay, 0);
  window.setInterval = (callback, delay, ...args) =>
    schedule(() => callback(...args), delay, Math.max(1, Number(delay) || 0));
  window.requestAnimationFrame = (callback) => schedule(() => callback(now - START_MS), FRAME_MS, 0);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = (timer) => void timers.delete(timer);
  window.performance.now = () => now - START_MS;
  window.Date = new Proxy(RealDate, {
    construct: (target, args, created) => Reflect.construct(target, args.length ? args : [now], created),
    apply: () => new RealDate(now).toString(),
    get: (target, name) => (name === "now" ? () => now : Reflect.get(target, name)),
  });

  async function pass(ms) {
    for (const end = now + ms; ; ) {
      let due = null;
      for (const [timer, { at }] of timers) if (at <= end && (due === null || at < timers.get(due).at)) due = timer;
      if (due === null) return void (now = end);
      const { at, every, run } = timers.get(due);
      now = at;
      if (every) timers.get(due).at = at + every;
      else timers.delete(due);
      try {
        run();
      } catch (error) {
        errors.push(String(error));
      }
      await null; // promises of the page go first
    }
  }

  // A dialog would stop the page, a form or a new window would leave it.
  window.alert = window.confirm = window.prompt = window.open = () => null;
  window.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("error", (event) => event.message && errors.push(event.message));

  // Each page has a clipboard of its own: Chromium has one for all.
  const isField = (element) => element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement;

  function selectedText() {
    const element = document.activeElement;
    if (!isField(element)) return String(window.getSelection());
    return element.value.slice(element.selectionStart, element.selectionEnd);
  }

  function takeCopy(event) {
    copied = selectedText();
    if (event.type === "cut") document.execCommand("delete");
    event.preventDefault();
  }

  document.addEventListener("copy", takeCopy, true);
  document.addEventListener("cut", takeCopy, true);
  document.addEventListener("paste", (event) => {
    event.preventDefault();
    document.execCommand("insertText", false, copied);
  }, true);

  // What the server sees.
  const INTERACTIVE = "a, button, input, select, textarea, [contenteditable=true]";
  const LEFT_OUT = "#query, #reward-display, #sync-task-cover, #click-canvas, script, style, option, optgroup";
  const numbers = new WeakMap(), numbered = [];

  function numberOf(element) {
    if (!numbers.has(element)) numbers.set(element, numbered.push(element));
    return numbers.get(element);
  }

  const oneLine = (text) => text.replace(/\s+/g, " ").trim();

  const ownText = (element) =>
    oneLine(Array.from(element.childNodes, (node) => (node instanceof Text ? node.data : " ")).join(""));

  function textOf(element) {
    if (element instanceof HTMLButtonElement) return oneLine(element.textContent);
    if (element instanceof HTMLInputElement && /^(submit|button|reset)$/.test(element.type)) return element.value;
    return element.matches("select, textarea") ? "" : ownText(element);
  }

  function hexColor(text) {
    const parts = /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/.exec(text);
    if (!parts || parts[4] === "0") return "";
    return "#" + parts.slice(1, 4).map((part) => Number(part).toString(16).padStart(2, "0")).join("");
  }

  // The fields of an element; null for one that has neither a text, nor a field, a shape, or a name.
  function described(element, box, style) {
    const classes = element.getAttribute("class") || "", isInteractive = element.matches(INTERACTIVE);
    const text = textOf(element), isShape = element instanceof SVGElement, isLeaf = element.childElementCount === 0;
    const color = isShape ? hexColor(style.fill) : text || isInteractive ? "" : hexColor(style.backgroundColor);
    if (!isInteractive && !text && !(isLeaf && (element.id || classes || color || isShape))) return null;
    const shown = {
      ref: element, tag: element.tagName.toLowerCase(), text, id: element.id, classes, color,
      x: Math.round(box.left), y: Math.round(box.top), width: Math.round(box.width), height: Math.round(box.height),
      is_focused: document.activeElement === element, is_disabled: element.disabled === true,
      is_read_only: element.readOnly === true,
    };
    if (element instanceof HTMLSelectElement) {
      shown.options = Array.from(element.options, (option) => option.text);
      shown.value = element.selectedIndex < 0 ? "" : element.options[element.selectedIndex].text;
    } else if (element instanceof HTMLInputElement) {
      shown.tag += `_${element.type}`;
      if (/^(checkbox|radio)$/.test(element.type)) shown.is_checked = element.checked;
      else if (!text) shown.value = element.value;
    } else if (element instanceof HTMLTextAreaElement) {
      shown.value = element.value;
    }
    return shown;
  }

  const LINE = 8;  // pixels between the middles of elements of one line
  const middle = (shown) => shown.y + shown.height / 2;

  // The visible elements as a person reads them, line by line. New ones are numbered in this order: that of the document
  // would be a hint, since many a task writes the right one first.
  function elementsToRead() {
    const lines = [];
    for (const shown of elements(document.body).sort((one, other) => middle(one) - middle(other))) {
      const line = lines.at(-1);
      if (line && middle(shown) - middle(line[0]) < LINE) line.push(shown); else lines.push([shown]);
    }
    const read = lines.flatMap((line) => line.sort((one, other) => one.x - other.x));
    return read.map((shown) => ({ ...shown, ref: numberOf(shown.ref) }));
  }

  // The visible elements below one, in the order of the document. A button is shown without what is in it.
  function elements(parent, found = []) {
    for (const element of parent.children) {
      const box = element.getBoundingClientRect(), style = window.getComputedStyle(element);
      const isEmpty = box.width === 0 || box.height === 0;
      if (element.matches(LEFT_OUT) || (isEmpty && style.overflow === "hidden")) continue;
      const shown = isEmpty || style.visibility === "hidden" ? null : described(element, box, style);
      if (shown !== null) found.push(shown);
      if (!(element instanceof HTMLButtonElement)) elements(element, found);
    }
    return found;
  }

  function elementOf(field, ref) {
    const element = numbered[ref - 1];
    if (!element || !element.isConnected) throw new RangeError(`${field}=${ref} is no element of the page.`);
    return element;
  }

  function editable(ref) {
    const element = elementOf("ref", ref);
    const takesText = element.isContentEditable || element instanceof HTMLTextAreaElement ||
      (element instanceof HTMLInputElement && !/^(checkbox|radio|button|submit|reset|image|file)$/.test(element.type));
    if (!takesText) throw new RangeError(`ref=${ref} is a ${element.tagName.toLowerCase()} that takes no text.`);
    if (element.disabled || element.readOnly) throw new RangeError(`ref=${ref} cannot be edited now.`);
    return element;
  }

  const changed = (element) =>
    ["input", "change"].forEach((type) => element.dispatchEvent(new Event(type, { bubbles: true })));

  const canScroll = (element) =>
    element.scrollHeight > element.clientHeight && /auto|scroll/.test(window.getComputedStyle(element).overflowY);

  // Points of an element, its middle first, until one where nothing else covers it.
  function visiblePoint(element) {
    element.scrollIntoViewIfNeeded();
    const boxes = [...element.getClientRects(), element.getBoundingClientRect()].filter((box) => box.width && box.height);
    const parts = [0.5, 0.25, 0.75, 0.1, 0.9];
    for (const box of boxes) for (const down of parts) for (const along of parts) {
      const point = { x: box.left + box.width * along, y: box.top + box.height * down };
      const hit = document.elementFromPoint(point.x, point.y);
      if (hit && element.contains(hit)) return point;
    }
    const box = element.getBoundingClientRect();
    return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
  }

  // Images that styles name, such as those under the mouse: the page would change its layout when one has been loaded.
  const stylesImages = () =>
    Array.from(document.styleSheets).filter((sheet) => !sheet.href).flatMap((sheet) =>
      Array.from(sheet.cssRules).flatMap((rule) => Array.from(rule.cssText.matchAll(/url\("(.*?)"\)/g), ([, url]) => {
        const image = new Image();
        image.src = url;
        return image;
      })));

  window.openenv = {
    async start(seed) {
      this.images = stylesImages(); // kept, so that they stay loaded
      await Promise.all(this.images.map((image) => image.decode().catch(() => null)));
      core.EPISODE_MAX_TIME = 2 ** 40; // the server limits steps instead
      Math.seedrandom(seed);
      core.startEpisodeReal();
    },

    async settle(ms) {
      await new Promise((resolve) => nextFrame(resolve)); // events of scrolling come with a frame
      await pass(ms);
      await Promise.all(Array.from(document.images, (image) => image.decode().catch(() => null)));
      const done = WOB_DONE_GLOBAL, goal = core.getUtterance();
      return {
        done, reward: WOB_RAW_REWARD_GLOBAL, utterance: goal.utterance || goal, error: errors.splice(0).join(" "),
        elements: done ? [] : elementsToRead(),
      };
    },

    point: (field, ref) => visiblePoint(elementOf(field, ref)),

    focus(ref) {
      elementOf("ref", ref).focus();
    },

    // Focuses a field and selects its text, for keys that replace it. Returns whether the text is written already.
    fill(ref, text) {
      const element = editable(ref), before = element.value;
      if (/^(date|time|month|week|datetime-local|color|range)$/.test(element.type)) {
        element.value = text;
        if (element.value !== text) {
          element.value = before;
          throw new RangeError(`text='${text}': a field of type ${element.type} takes another form.`);
        }
        element.focus();
        changed(element);
        return true;
      }
      element.focus();
      if (element.isContentEditable) {
        window.getSelection().selectAllChildren(element);
        return false;
      }
      element.select();
      return false;
    },

    select(ref, wanted) {
      const element = elementOf("ref", ref);
      if (!(element instanceof HTMLSelectElement)) throw new RangeError(`ref=${ref} is no list of options.`);
      const texts = Array.from(element.options, (option) => option.text), index = texts.indexOf(wanted);
      if (index < 0) throw new RangeError(`option='${wanted}' is not among: ${texts.join(", ")}.`);
      element.focus();
      element.selectedIndex = index;
      changed(element);
    },

    // Scrolls the nearest element at a place that can be scrolled.
    scroll(ref, x, y, down) {
      let element = ref === null ? document.elementFromPoint(x, y) : elementOf("ref", ref);
      while (element && !canScroll(element)) element = element.parentElement;
      (element || document.scrollingElement).scrollBy({ top: down, behavior: "instant" });
    },
  };
})();
