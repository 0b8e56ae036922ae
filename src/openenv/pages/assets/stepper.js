// Steps forward and back through what a server keeps: by buttons, keys, a slider, and the number in the URL's fragment.

const AHEAD = 8, MOST_KEPT = 400;

export class Stepper {
  #kept = new Map(); #direction = 1;

  // load(index): a promise of what is kept at an index. show(index, data): called for the one where the person is.
  constructor(root, {load, show, fragment = true, onError}) {
    this.load = load; this.show = show; this.fragment = fragment; this.onError = onError;
    this.length = 0; this.index = 0; this.marks = [];
    this.slider = root.querySelector("input");
    this.where = root.querySelector("output");
    this.buttons = Object.fromEntries([...root.querySelectorAll("[data-go]")].map(button => [button.dataset.go, button]));
    for (const [name, button] of Object.entries(this.buttons)) button.onclick = () => this.#press(name);
    this.slider.oninput = () => this.go(this.slider.valueAsNumber - 1);
    document.addEventListener("keydown", event => this.#key(event));
    if (fragment) addEventListener("hashchange", () => this.go(this.#inUrl()));
  }

  // There are so many now. Begins where the URL says.
  grow(length) {
    const isFirst = this.length === 0 && length > 0;
    this.length = length;
    this.slider.max = Math.max(length, 1);
    if (isFirst) this.go(this.fragment ? this.#inUrl() : 0); else this.#label();
  }

  // Forget everything: other things are stepped through from now on.
  clear() {
    this.#kept.clear();
    this.length = this.index = 0;
    this.#label();
  }

  async go(index) {
    if (!this.length) return;
    const wanted = Math.min(Math.max(index, 0), this.length - 1);
    if (wanted !== this.index) this.#direction = wanted < this.index ? -1 : 1;
    this.index = wanted;
    this.#label();
    if (this.fragment) history.replaceState(null, "", `#${wanted + 1}`);
    try {
      const data = await this.#at(wanted);
      if (this.index !== wanted) return;  // the person has gone on
      this.show(wanted, data);
      for (let step = 1; step <= AHEAD; step += 1) this.#at(wanted + step * this.#direction).catch(() => {});
    } catch (error) {
      this.onError(error);
    }
  }

  // What is kept before an index, as far as it was loaded, newest last.
  loadedBefore(index, most) {
    const found = [];
    for (let at = index - 1; at >= 0 && found.length < most && this.#kept.get(at)?.data; at -= 1) found.unshift(this.#kept.get(at).data);
    return found;
  }

  #at(index) {
    if (index < 0 || index >= this.length) return Promise.resolve(null);
    let entry = this.#kept.get(index);
    if (!entry) {
      entry = {data: null, promise: null};
      entry.promise = this.load(index).then(data => entry.data = data, error => { this.#kept.delete(index); throw error; });
      this.#kept.set(index, entry);
      if (this.#kept.size > MOST_KEPT) this.#kept.delete(this.#kept.keys().next().value);
    }
    return entry.promise;
  }

  #label() {
    const {first, back, forward, last, marked} = this.buttons;
    this.slider.value = this.index + 1;
    this.where.textContent = this.length ? `${(this.index + 1).toLocaleString("en")} of ${this.length.toLocaleString("en")}` : "none";
    this.slider.setAttribute("aria-valuetext", this.where.textContent);
    for (const button of [first, back]) button.setAttribute("aria-disabled", this.index === 0);
    for (const button of [forward, last]) button.setAttribute("aria-disabled", this.index >= this.length - 1);
    marked?.setAttribute("aria-disabled", this.marks.length === 0);
  }

  #press(name) {
    const next = this.marks.find(mark => mark > this.index) ?? this.marks[0] ?? this.index;
    this.go({first: 0, back: this.index - 1, forward: this.index + 1, last: this.length - 1, marked: next}[name]);
  }

  #key(event) {
    const name = {ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", n: "marked"}[event.key];
    if (!name || !(name in this.buttons) || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.closest("input, select, textarea, pre, .scroll, .wide")) return;
    event.preventDefault();
    this.#press(name);
  }

  #inUrl() {
    return (parseInt(location.hash.slice(1), 10) || 1) - 1;
  }
}
