// What a mark of a chart says, in a box beside it: at the pointer, at a tap, and where the keyboard is. A chart is one stop of the
// Tab key; the arrows go from mark to mark, Home and End to the first and last, Escape closes the box. Without this script the page
// has each chart and its table, and a screen reader each mark.
"use strict";
(() => {
  const NEAR = 10;   // pixels between the pointer and a mark that is meant
  const tip = Object.assign(document.createElement("div"), { className: "tl-tip", hidden: true, ariaHidden: "true" });
  document.body.append(tip);

  let shown = null;   // the mark, while the keyboard is there

  const hide = () => {
    tip.hidden = true;
    shown = null;
  };
  // A label ends in the mark's number; what comes before it names the mark.
  const show = (mark, x) => {
    const [, names, value] = mark.getAttribute("aria-label").match(/^(?:(.*); )?([^;]*: .*)$/s) ?? [];
    const line = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
    tip.replaceChildren(line("span", (names ?? mark.getAttribute("aria-label")).replaceAll("; ", " · ")), line("b", value ?? ""));
    tip.hidden = false;
    const box = mark.getBoundingClientRect(), { width, height } = tip.getBoundingClientRect();
    const left = (x ?? (box.left + box.right) / 2) - width / 2;
    tip.style.left = `${Math.max(4, Math.min(left, document.documentElement.clientWidth - width - 4))}px`;
    tip.style.top = `${box.top - height - 6 > 60 ? box.top - height - 6 : box.bottom + 6}px`;   // 60: the page's header
  };

  for (const chart of document.querySelectorAll(".tl-chart")) {
    const marked = `[aria-roledescription="${chart.dataset.role}"]`;
    for (const svg of chart.querySelectorAll("svg")) {
      const marks = [...svg.querySelectorAll(marked)];
      const stops = marks.map((mark) => mark.closest("a") ?? mark);
      const middle = (n) => {
        const { left, right, top, bottom } = marks[n].getBoundingClientRect();
        return [(left + right) / 2, (top + bottom) / 2];
      };
      // The nearest mark above or below, of those as near the one least aside.
      const along = (from, way) => {
        const [x, y] = middle(from);
        const far = (n) => {
          const [a, b] = middle(n);
          return (b - y) * way > 2 ? (b - y) * way + 3 * Math.abs(a - x) : Infinity;
        };
        const found = marks.map((_, n) => far(n));
        const least = Math.min(...found);
        return least < Infinity ? found.indexOf(least) : from;
      };
      stops.forEach((stop, n) => stop.setAttribute("tabindex", n ? -1 : 0));
      svg.addEventListener("keydown", (event) => {
        const now = stops.indexOf(event.target);
        const to = {
          ArrowLeft: () => now - 1, ArrowRight: () => now + 1, ArrowUp: () => along(now, -1), ArrowDown: () => along(now, 1),
          Home: () => 0, End: () => stops.length - 1,
        }[event.key];
        if (now < 0 || !to || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
        event.preventDefault();
        const next = Math.min(Math.max(to(), 0), stops.length - 1);
        stops[now].setAttribute("tabindex", -1);
        stops[next].setAttribute("tabindex", 0);
        stops[next].focus();
      });
      svg.addEventListener("focusin", ({ target }) => {
        if (!target.matches(":focus-visible")) return;
        shown = marks[stops.indexOf(target)];
        show(shown);
      });
      svg.addEventListener("focusout", hide);

      // Some boxes are a pixel wide, and a finger is not.
      let boxes = null;
      const meant = ({ target, clientX, clientY }) => {
        if (target.closest(marked)) return target.closest(marked);
        boxes ??= marks.map((mark) => mark.getBoundingClientRect());
        const far = ({ left, right, top, bottom }) =>   // of several at the pointer, the one whose middle is nearest
          Math.hypot(Math.max(left - clientX, 0, clientX - right), Math.max(top - clientY, 0, clientY - bottom))
          + Math.hypot((left + right) / 2 - clientX, (top + bottom) / 2 - clientY) / 1000;
        const found = boxes.map(far);
        const least = Math.min(...found);
        return least <= NEAR ? marks[found.indexOf(least)] : null;
      };
      const point = (event) => {
        const mark = meant(event);
        if (mark) show(mark, event.clientX);
        else hide();
      };
      svg.addEventListener("pointerenter", () => { boxes = null; });
      svg.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") point(event); });
      svg.addEventListener("pointerleave", ({ pointerType }) => { if (pointerType === "mouse") hide(); });
      svg.addEventListener("click", (event) => { boxes = null; if (event.detail) point(event); });   // no click of the Enter key
    }
  }
  addEventListener("keydown", ({ key }) => { if (key === "Escape") hide(); });
  addEventListener("pointerdown", ({ target }) => { if (!target.closest?.(".tl-chart svg")) hide(); });
  addEventListener("scroll", () => { if (shown) show(shown); else hide(); }, { passive: true });
})();
