// <tl-steps>: a recorded call to step through, up to three ISAs side by side. Without this script the element shows its
// content, which is the same calls as text. The data is inside the element; lib/tramplab/publish/stepper.py writes it.
"use strict";
const SHOWN = 9;  // instructions in view
customElements.define("tl-steps", class extends HTMLElement {
  connectedCallback() {
    if (this.walks) return;
    this.walks = JSON.parse(this.querySelector("script").textContent).walks;
    this.id ||= `${this.closest("figure, [id]")?.id ?? "walk"}-steps`;
    this.align();
    this.build();
    this.now = 0;
    addEventListener("hashchange", () => this.follow());
    this.draw();
    this.follow();
  }

  // One position for all: milestones in step, and between two of them the shorter stretches wait at their end.
  align() {
    const marks = this.walks.map((walk) => walk.milestones);
    this.milestones = Object.keys(marks[0]).filter((name) => marks.every((mark) => name in mark));
    this.starts = {};
    this.positions = [];
    this.milestones.forEach((name, n) => {
      this.starts[name] = this.positions.length;
      const next = this.milestones[n + 1];
      const lengths = this.walks.map((walk) => (next ? walk.milestones[next] : walk.steps.length) - walk.milestones[name]);
      for (let offset = 0; offset < Math.max(...lengths); offset++) {
        this.positions.push(this.walks.map((walk, i) => walk.milestones[name] + Math.min(offset, lengths[i] - 1)));
      }
    });
    // The state after every step, from what each one changed.
    for (const walk of this.walks) {
      const pair = (text) => text.split(/=(.*)/s, 2);
      let registers = new Map(walk.start.map(pair));
      let memory = new Map();
      walk.states = walk.steps.map(([, changed, written]) => {
        registers = new Map([...registers, ...changed.map(pair)]);
        memory = new Map([...memory, ...written.map(pair)]);
        return { registers, memory };
      });
      const used = new Set(walk.steps.flatMap(([, changed]) => changed.map((text) => pair(text)[0])));
      walk.registers = walk.start.map((text) => pair(text)[0]).filter((name) => used.has(name));
      const depth = (place) => (/^S([+-]\d+)?(:\d)?$/.test(place) ? parseInt(place.slice(1) || "0", 10) : -Infinity);
      walk.places = [...memory.keys()].sort((a, b) => depth(b) - depth(a));
    }
  }

  build() {
    const make = (tag, options = {}, ...children) => {
      const { on, ...rest } = options;
      const element = Object.assign(document.createElement(tag), rest);
      for (const [event, action] of Object.entries(on ?? {})) element.addEventListener(event, action);
      element.append(...children);
      return element;
    };
    const button = (text, label, go) => {
      const made = make("button", { type: "button", textContent: text, on: { click: () => this.go(go()) } });
      made.setAttribute("aria-label", label);
      return made;
    };
    const last = this.positions.length - 1;
    this.slider = make("input", {
      type: "range", min: 0, max: last, value: 0, on: { input: () => this.go(+this.slider.value) },
    });
    this.slider.setAttribute("aria-label", "step");
    this.stops = this.milestones.map((name) => button(name, `go to ${name}`, () => this.starts[name]));
    this.said = make("output", { className: "tl-said" });
    this.said.setAttribute("aria-live", "polite");
    this.columns = this.walks.map((walk) => {
      const parts = { code: make("ol"), note: make("p", { className: "tl-note" }), registers: make("tbody"), memory: make("tbody") };
      const table = (caption, rows) => make("table", {}, make("caption", { textContent: caption }), rows);
      const column = make("section", { className: "tl-walk" }, make("p", { className: "tl-isa", textContent: walk.config }),
        parts.code, parts.note, table("registers", parts.registers), table("memory", parts.memory));
      column.setAttribute("aria-label", walk.isa);
      return { ...parts, column };
    });
    // On a phone one ISA is seen at a time.
    const tabs = this.walks.map((walk, i) => make("label", {}, make("input", {
      type: "radio", name: this.id, checked: i === 0, on: { change: () => this.show(i) },
    }), ` ${walk.isa}`));
    const tools = make("div", { className: "tl-tools" },
      button("«", "first step", () => 0), button("‹", "step back", () => this.now - 1), this.slider,
      button("›", "step forward", () => this.now + 1), button("»", "last step", () => last), this.said);
    const board = make("div", { className: "tl-board", on: { keydown: (event) => this.key(event) } }, tools,
      make("div", { className: "tl-stops" }, ...this.stops),
      make("div", { className: "tl-tabs" }, ...tabs),
      make("div", { className: "tl-walks" }, ...this.columns.map(({ column }) => column)),
      make("p", { className: "tl-keys", textContent: "Keys: ← → step, PageUp PageDown ten, n p milestone, Home End. "
        + "S is the stack pointer at the function's first byte; • marks what this step changed, ✎ a remark, ◂sp the end of the stack." }));
    board.setAttribute("role", "group");
    board.setAttribute("aria-label", "The call, step by step");
    board.tabIndex = 0;
    this.make = make;
    this.prepend(board);
    this.show(0);
  }

  show(which) {
    this.columns.forEach(({ column }, i) => column.classList.toggle("tl-shown", i === which));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.type === "radio") return;
    const stops = this.milestones.map((name) => this.starts[name]);
    const to = {
      ArrowLeft: () => this.now - 1, ArrowRight: () => this.now + 1, PageUp: () => this.now - 10, PageDown: () => this.now + 10,
      Home: () => 0, End: () => this.positions.length - 1,
      n: () => stops.find((stop) => stop > this.now) ?? this.now,
      p: () => stops.findLast((stop) => stop < this.now) ?? 0,
    }[event.key];
    if (!to) return;
    event.preventDefault();
    this.go(to());
  }

  // The reader went somewhere: the address says where, so that it can be passed on.
  go(position) {
    this.now = Math.min(Math.max(position, 0), this.positions.length - 1);
    this.draw();
    history.replaceState(null, "", `#${this.id}=${this.now}`);
  }

  follow() {
    const [id, position] = decodeURIComponent(location.hash.slice(1)).split("=");
    if (id !== this.id || !/^\d+$/.test(position)) return;
    this.now = Math.min(+position, this.positions.length - 1);
    this.draw();
    this.scrollIntoView();
  }

  draw() {
    const steps = this.positions[this.now];
    this.slider.value = this.now;
    const at = this.milestones.findLast((name) => this.starts[name] <= this.now);
    this.stops.forEach((stop, i) => stop.toggleAttribute("aria-current", this.milestones[i] === at));
    this.said.textContent = `${this.now + 1} of ${this.positions.length}: ${at}`;
    this.walks.forEach((walk, i) => this.drawWalk(walk, this.columns[i], steps[i]));
  }

  drawWalk(walk, parts, step) {
    const { make } = this;
    const noted = new Map(walk.notes);
    const first = Math.min(Math.max(step - 3, 0), Math.max(walk.steps.length - SHOWN, 0));
    const lines = [];
    for (let n = first; n < Math.min(first + SHOWN, walk.steps.length); n++) {
      const [symbol, , text] = walk.code[walk.steps[n][0]];
      const [name, component] = walk.symbols[symbol];
      const before = n > first && walk.code[walk.steps[n - 1][0]][0];
      if (before !== symbol) lines.push(make("li", { className: `tl-symbol tl-in-${component}`, textContent: `${name} [${component}]` }));
      const line = make("li", { className: `tl-in-${component}` }, make("code", { textContent: text }), noted.has(n) ? " ✎" : "");
      if (n === step) line.setAttribute("aria-current", "step");
      lines.push(line);
    }
    parts.code.replaceChildren(...lines);
    parts.note.textContent = (noted.get(step) ?? []).join(" ");
    const { registers, memory } = walk.states[step];
    const [, changed, written] = walk.steps[step];
    const row = (name, value, now) => make("tr", { className: now ? "tl-now" : "" },
      make("th", { textContent: name, scope: "row" }), make("td", { textContent: value ?? "" }),
      make("td", { textContent: `${now ? "•" : ""}${name === registers.get(walk.sp) ? "◂sp" : ""}` }));
    const is = (list, name) => list.some((text) => text.startsWith(`${name}=`));
    parts.registers.replaceChildren(...walk.registers.map((name) => row(name, registers.get(name), is(changed, name))));
    parts.memory.replaceChildren(...walk.places.map((place) => row(place, memory.get(place), is(written, place))));
  }
});
