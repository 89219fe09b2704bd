// Finds sections that have all words of a query, the best first, each with an excerpt. sections.js has what they say.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const words = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const place = document.getElementById("search-results");
  if (!words.length || !place) return;
  for (const field of document.querySelectorAll("input[name=q]")) field.value = words.join(" ");

  const titles = Object.fromEntries(window.tramplabSections.map(([page, , title]) => [page, title]).reverse());
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const begins = words.map((word) => new RegExp(`(?<![a-z0-9])${escaped(word)}`, "gi"));
  const count = (text, pattern) => text.match(pattern)?.length ?? 0;

  // All words must be there; a word in the title counts for ten in the text.
  const found = window.tramplabSections.flatMap(([page, anchor, title, text]) => {
    const scores = begins.map((word) => 10 * count(title, word) + Math.min(count(text, word), 9));
    return scores.every((score) => score) ? [{ page, anchor, title, text, score: scores.reduce((a, b) => a + b) }] : [];
  });
  found.sort((a, b) => b.score - a.score);

  const excerpt = (text) => {
    const at = Math.max(0, text.search(begins[0]));
    const from = at < 80 ? 0 : text.indexOf(" ", at - 80) + 1;
    const cut = text.slice(from, from + 240);
    const whole = from + 240 >= text.length ? cut : `${cut.slice(0, cut.lastIndexOf(" "))} …`;
    const said = document.createElement("p");
    said.className = "context";
    const any = new RegExp(begins.map((word) => word.source).join("|"), "gi");
    let last = 0;
    const shown = (from ? "… " : "") + whole;
    for (const hit of shown.matchAll(any)) {
      const mark = document.createElement("mark");
      mark.textContent = hit[0];
      said.append(shown.slice(last, hit.index), mark);
      last = hit.index + hit[0].length;
    }
    said.append(shown.slice(last));
    return said;
  };

  const heading = document.createElement("h2");
  heading.textContent = found.length === 1 ? "One section" : `${found.length || "No"} sections`;
  const list = document.createElement("ul");
  list.className = "search";
  for (const { page, anchor, title, text } of found) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${page}.html?highlight=${encodeURIComponent(words.join(" "))}#${anchor}`;
    link.textContent = title;
    item.append(link);
    if (titles[page] !== title) item.append(` in ${titles[page]}`);
    item.append(excerpt(text));
    list.append(item);
  }
  place.append(heading, list);
  if (!found.length) place.append("No section has all of these words, or words that begin so. Try fewer.");
});
