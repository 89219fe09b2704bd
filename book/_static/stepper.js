// <tl-steps>: recorded calls to step through side by side. Without this script the element shows its content, the same
// calls as text. lib/tramplab_book/publish/stepper/stepper.py writes the data inside it, walk_data.py says what its parts mean.
"use strict";
(() => {
  const ABOVE = 3;   // rows of code in view above the current one
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const stack = (offset) => (offset ? `S${offset < 0 ? "-" : "+"}0x${Math.abs(offset).toString(16)}` : "S");
  const depth = (text) => (text === "S" ? 0 : /^S[+-]0x/.test(text) ? parseInt(text.slice(1), 16) : NaN);

  // Scroll a list as little as needed for some of its rows to be in view; the upper ones, if there is no room for all.
  const reveal = (list, rows) => {
    if (!rows.length) return;
    const top = Math.min(...rows.map((row) => row.offsetTop));
    const bottom = Math.max(...rows.map((row) => row.offsetTop + row.offsetHeight));
    list.scrollTop = Math.min(Math.max(list.scrollTop, bottom - list.clientHeight), top);
  };
  const fold = (className, summary, ...children) => make("details", { className }, make("summary", {}, summary), ...children);

  // From what each step changed to what there is after each step.
  const replay = (walk) => {
    const code = [];
    const held = [...walk.start];
    let symbol, line = -1;
    for (const item of walk.code) typeof item === "number" ? symbol = item : code.push({ symbol, text: item });
    walk.steps = walk.steps.map((list, number) => {
      line = walk.jumps[number] ?? line + 1;
      const step = { ...code[line], changed: new Set(), read: new Set() };
      for (let i = 0; i < list.length;) {
        if (list[i] < 0) step.read.add(~list[i++]);
        else { step.changed.add(list[i]); held[list[i]] = list[i + 1]; i += 2; }
      }
      return { ...step, held: [...held] };
    });
  };

  // Where a walk is at every position: milestones stand in line, between two of them the shorter stretch waits at its end.
  const align = (walk, segments) => {
    const { milestones, steps } = walk;
    walk.path = [];
    let step = 0;
    segments.forEach(([name, width], n) => {
      const next = segments.slice(n + 1).find(([later]) => later in milestones);
      const end = next ? milestones[next[0]] : steps.length;
      for (let offset = 0; offset < width; offset++) {
        const goes = name in milestones && milestones[name] + offset < end;
        if (goes) step = milestones[name] + offset;
        walk.path.push({ step, waits: !goes });
      }
    });
  };

  customElements.define("tl-steps", class extends HTMLElement {
    connectedCallback() {
      if (this.board) return;
      Object.assign(this, JSON.parse(this.querySelector("script").textContent));
      this.name = this.closest("figure[id]")?.id ?? this.closest("[id]")?.id ?? "steps";
      this.stops = [];   // a position for each segment, and for each position its segment
      this.places = this.segments.flatMap(([name, width], n) => {
        this.stops[n] = n && this.stops[n - 1] + this.segments[n - 1][1];
        return Array.from({ length: width }, (_, offset) => ({ name, offset, n }));
      });
      for (const walk of this.walks) {
        replay(walk);
        align(walk, this.segments);
      }
      this.build();
      for (const text of this.querySelectorAll("details")) text.open = false;
      addEventListener("hashchange", () => this.follow());
      this.show(0);
      this.draw(0);
      this.follow();
    }

    build() {
      const button = (text, label, go) =>
        make("button", { type: "button", textContent: text, ariaLabel: label, title: label, onclick: () => this.go(go()) });
      const last = this.places.length - 1;
      this.slider = make("input", {
        type: "range", min: 0, max: last, value: 0, ariaLabel: "step", oninput: () => this.go(+this.slider.value),
      });
      this.head = make("div", { className: "tl-head" });
      this.link = make("a");
      this.said = make("span", { className: "tl-said", ariaLive: "polite" });
      this.buttons = this.segments.map(([name], n) => button(name, `go to ${name}`, () => this.stops[n]));
      this.remarks = this.notes.map(([name, offset, text]) =>
        ({ at: this.stops[this.segments.findIndex(([other]) => other === name)] + offset, line: make("p", {}, text) }));
      this.all = make("button", { type: "button", textContent: "All rows", ariaPressed: "false",
        title: "show all registers and all of the memory", onclick: () => this.unfold() });
      const same = this.walks.filter((walk) => walk.same.length);
      const title = this.closest(".tl-figure")?.querySelector(".tl-title")?.textContent ?? "The call";
      this.tabs = this.walks.map((walk, n) => make("button", { type: "button", textContent: walk.isa, onclick: () => this.show(n) }));
      this.board = make("div", { className: "tl-board", role: "group", tabIndex: 0, ariaLabel: `${title} Step by step`,
        onkeydown: (event) => this.key(event) },
        make("div", { className: "tl-tools" },
          button("⇤", "first step (Home)", () => 0), button("←", "one step back", () => this.now - 1),
          button("→", "one step on", () => this.now + 1), button("⇥", "last step (End)", () => last),
          ...this.buttons, make("span", { className: "tl-where" }, this.link, this.said)),
        make("div", { className: "tl-lanes" },
          make("div", { ariaHidden: "true" }, ...this.walks.map(({ isa }) => make("div", {}, isa))),
          make("div", { className: "tl-track" }, ...this.walks.map((walk) => this.lane(walk)), this.slider, this.head)),
        make("div", { className: "tl-tools tl-tabs", role: "group", ariaLabel: "ISA" }, ...this.tabs),
        ...(this.remarks.length ? [make("div", { className: "tl-notes" }, ...this.remarks.map(({ line }) => line))] : []),
        make("div", { className: "tl-walks" }, ...this.walks.map((walk) => this.column(walk))),
        make("div", { className: "tl-folds" }, this.all,
          ...(same.length ? [fold("tl-same", `Registers that never change: ${same.map(({ isa, same }) => `${same.length} on ${isa}`)
            .join(", ")}`, ...same.map(({ isa, same }) => make("p", {}, make("b", {}, isa), ` ${same.map(([name, value]) =>
            (value === `${name}@0` ? name : `${name}=${value}`)).join(", ")}`)))] : []),
          fold("tl-keys", "Keys and marks", make("p", {}, "Keys: ← → one step, PageUp PageDown ten, n p milestone, Home End. The boxed "
            + "instruction has just been executed: • it changed the register, W wrote, R read the word; · not known yet; ▸ the stack "
            + "pointer. S: the stack pointer at the function's first byte. x@0: what register x held there."))));
      this.prepend(this.board);
    }

    // A walk's components over all positions, where it has notes, and where it waits.
    lane(walk) {
      const noted = new Set(walk.notes.map(([step]) => step));
      return make("div", { className: "tl-lane", ariaHidden: "true" }, ...walk.path.map(({ step, waits }, n) => make("i", {
        className: waits ? "" : `tl-in-${walk.symbols[walk.steps[step].symbol][1]}`,
        textContent: !waits && noted.has(step) || this.remarks.some(({ at }) => at === n) ? "•" : "",
      })));
    }

    column(walk) {
      const row = (name, field = "") => {
        const cells = ["b", "span", "span", "span"].map((tag) => make(tag));
        [, cells[1].textContent, cells[2].textContent] = [0, name, field];
        return { cells, line: make("li", {}, ...cells) };
      };
      walk.rows = new Map();
      const held = (n) => {
        const name = walk.places[n];
        const { cells, line } = row(typeof name === "number" ? stack(name) : name, walk.fields[n]);
        const ever = walk.steps.map((step) => walk.values[step.held[n]] ?? "");
        cells[3].dataset.longest = ever.reduce((a, b) => (b.length > a.length ? b : a));
        walk.rows.set(n, { cells, line });
        return line;
      };
      const registers = walk.places.slice(0, walk.registers).map((_, n) => held(n));
      walk.gaps = [];
      const memory = walk.memory.map((item) => {
        if (typeof item === "number") return held(item);
        const [top, bottom, fields] = item;
        const gap = row(stack(top) + (top > bottom ? ` to ${stack(bottom)}` : ""), fields);
        walk.gaps.push({ ...gap, top, bottom });
        gap.line.className = "tl-gap";
        return gap.line;
      });
      walk.notes = walk.notes.map(([step, text]) => ({ step, line: make("p", {}, text) }));
      walk.lines = walk.steps.map(({ text, symbol }, step) => make("li", {
        className: `tl-in-${walk.symbols[symbol][1]}`, textContent: text,
        onclick: () => this.go(walk.path.findIndex((at) => at.step === step)),
      }));
      walk.code = make("ol", { className: "tl-code", ariaLabel: `${walk.isa}: instructions as executed` });
      walk.lines.forEach((line, step) => {
        const { symbol } = walk.steps[step];
        if (symbol !== walk.steps[step - 1]?.symbol) {
          const [name, component] = walk.symbols[symbol];
          walk.code.append(make("li", { className: `tl-symbol tl-in-${component}` }, `${name} `, make("span", {}, component)));
        }
        walk.code.append(line);
      });
      walk.state = make("span");
      walk.lists = [[...registers], [...memory]].map((rows, n) =>
        make("ul", { className: "tl-held", ariaLabel: `${walk.isa}: ${n ? "memory" : "registers"}` }, ...rows));
      walk.column = make("div", { className: "tl-walk", role: "group", ariaLabel: walk.isa },
        make("p", { className: "tl-isa" }, make("b", { textContent: walk.config }), walk.state),
        walk.code, make("div", { className: "tl-notes" }, ...walk.notes.map(({ line }) => line)),
        ...walk.lists);
      return walk.column;
    }

    // All rows of registers and memory, or as many as fit beside the code.
    unfold() {
      this.all.ariaPressed = `${this.board.classList.toggle("tl-all")}`;
      this.draw(this.now);
    }

    // On a phone one ISA is seen at a time.
    show(which) {
      this.walks.forEach(({ column }, n) => column.classList.toggle("tl-shown", n === which));
      this.tabs.forEach((tab, n) => tab.ariaPressed = `${n === which}`);
      if (this.now !== undefined) this.draw(this.now);   // what is not shown cannot be scrolled
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      const to = {
        ArrowLeft: () => this.now - 1, ArrowRight: () => this.now + 1,
        PageUp: () => this.now - 10, PageDown: () => this.now + 10, Home: () => 0, End: () => this.places.length - 1,
        n: () => this.stops.find((stop) => stop > this.now) ?? this.now,
        p: () => this.stops.findLast((stop) => stop < this.now) ?? 0,
      }[event.key];
      if (!to) return;
      event.preventDefault();
      this.go(to());
    }

    // The reader went somewhere: the address says where, so that it can be passed on.
    go(position) {
      this.draw(Math.min(Math.max(position, 0), this.places.length - 1));
      history.replaceState(null, "", this.link.hash);
    }

    // An address like #fig-first-callback=save+3 leads to a step; any other is none of ours.
    follow() {
      const [name, milestone, offset] = location.hash.slice(1).split(/[=+]/);
      const n = this.segments.findIndex(([other]) => other === milestone);
      if (name !== this.name || n < 0) return;
      this.draw(this.stops[n] + Math.min(parseInt(offset ?? 0, 10) || 0, this.segments[n][1] - 1));
      this.scrollIntoView();
    }

    draw(position) {
      this.now = position;
      const { name, offset, n } = this.places[position];
      const width = 100 / this.places.length;
      const where = name + (offset ? `+${offset}` : "");
      this.slider.value = position;
      this.head.style.left = `${position * width}%`;
      this.head.style.width = `${width}%`;
      this.link.textContent = where;
      this.link.href = `#${this.name}=${where}`;
      this.buttons.forEach((button, i) => button.ariaCurrent = i === n ? "step" : null);
      for (const { at, line } of this.remarks) line.classList.toggle("tl-on", at === position);
      const said = this.walks.map((walk) => this.drawWalk(walk, walk.path[position]));
      for (const { code, lines, path, lists } of this.walks) {   // after all else, so that the page is laid out once
        const rows = [...code.children];
        code.scrollTop = rows[Math.max(rows.indexOf(lines[path[position].step]) - ABOVE, 0)].offsetTop;
        for (const list of lists) {
          const marked = ["tl-now", "tl-read", "tl-sp"].map((name) => [...list.children].filter((row) => row.classList.contains(name)));
          reveal(list, marked.find((some) => some.length) ?? []);
        }
      }
      this.slider.ariaValueText = `${where}, step ${position + 1} of ${this.places.length}`;
      this.said.replaceChildren(` ${position + 1}/${this.places.length}`, make("span", {}, `, ${where}. ${said.join("; ")}`));
    }

    drawWalk(walk, { step, waits }) {
      const { changed, read, held, symbol, text } = walk.steps[step];
      const [, component] = walk.symbols[symbol];
      const line = walk.lines[step];
      for (const other of walk.lines) other.ariaCurrent = other === line ? "step" : null;
      walk.state.className = `tl-in-${component}`;
      walk.state.textContent = waits ? "waits here" : component;
      for (const note of walk.notes) note.line.classList.toggle("tl-on", note.step === step);
      const sp = walk.values[held[walk.sp]];
      for (const [place, { cells, line }] of walk.rows) {
        const register = place < walk.registers;
        const now = !waits && changed.has(place);
        const reads = !waits && read.has(place);
        cells[0].textContent = now ? (register ? "•" : "W") : reads ? "R" : "";
        cells[3].textContent = walk.values[held[place]] ?? "·";
        line.classList.toggle("tl-now", now);
        line.classList.toggle("tl-read", reads);
        if (!register) {
          line.classList.toggle("tl-sp", stack(walk.places[place]) === sp);
          line.classList.toggle("tl-below", walk.places[place] < depth(sp));
        }
      }
      for (const { line, top, bottom } of walk.gaps) {
        line.classList.toggle("tl-sp", bottom <= depth(sp) && depth(sp) <= top);
        line.classList.toggle("tl-below", top < depth(sp));
      }
      return `${walk.isa} ${waits ? "waits" : `${component}: ${text}`}`;
    }
  });
})();
