// Draws live charts in place of their static pictures, opens what an address names. Nothing here is needed to read the page.
"use strict";
// What is folded is opened by its address: a claim, whose summary has the id and says what was claimed without this, too; a run,
// with all that it is folded into.
(() => {
  const unfold = () => {
    const named = document.getElementById(location.hash.slice(1));
    let moved = false;
    for (let at = named?.closest("details:not([open])"); at; at = at.parentElement.closest("details:not([open])")) {
      at.open = true;
      moved ||= at !== named;
    }
    if (moved) named.scrollIntoView();   // until then it was nowhere
  };
  addEventListener("hashchange", unfold);
  addEventListener("click", ({ target }) => {   // folded again, and asked for again: the address stays the same
    if (location.hash && target.closest?.("a[href]")?.getAttribute("href") === location.hash) unfold();
  });
  unfold();
})();
(() => {
  const charts = document.querySelectorAll(".tl-chart");
  if (!charts.length) return;
  const bundle = new URL("vega-bundle.js", document.currentScript.src);
  const phone = matchMedia("(max-width: 600px)");
  const drawn = new Set();
  let loading = null;

  // 900 kB, so only when a chart is about to be seen. A script element, because fetch() fails on file://.
  const load = () => loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = bundle;
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });

  // What publish/figures/chart/packed.py has packed: columns, the wide layout, and in what the narrow one differs.
  const unpacked = ({ columns, wide, narrow }, small) => {
    const names = Object.keys(columns);
    const rows = columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
    for (const [path, ...value] of small ? narrow : []) {
      const at = path.slice(0, -1).reduce((part, key) => part[key], wide);
      if (value.length) at[path.at(-1)] = value[0];
      else delete at[path.at(-1)];
    }
    return { config: window.tramplabChart, ...wide, datasets: { rows } };
  };

  // A mark whose row says where it leads is a link like any other: for the mouse, the keyboard and the list of a page's links.
  const link = (mark) => {
    const leads = mark.__data__?.datum?.leads;   // Vega notes at each mark what it is drawn from
    if (!leads) return;
    const a = document.createElementNS("http://www.w3.org/2000/svg", "a");
    a.setAttribute("href", `#${leads}`);
    mark.replaceWith(a);
    a.append(mark);
  };

  const draw = async (chart) => {
    await load();
    const spec = unpacked(JSON.parse(chart.querySelector("script").textContent), phone.matches);
    const target = document.createElement("div");
    await window.tramplabVega(target, spec, {
      actions: false,
      renderer: "svg",                      // SVG takes its colours from the page's style sheet
      loader: { load: () => Promise.reject(new Error("charts load nothing")) },
    });
    target.querySelectorAll("[aria-roledescription]").forEach(link);
    (chart.querySelector("picture") ?? chart.querySelector(".vega-embed")).replaceWith(target);
    drawn.add(chart);
  };

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target).catch((error) => console.error(error));   // the static picture stays
    }
  }, { rootMargin: "300px" });
  charts.forEach((chart) => near.observe(chart));
  phone.addEventListener("change", () => drawn.forEach(draw));
})();
