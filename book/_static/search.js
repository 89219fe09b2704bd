// Finds sections while one types, in the dialog of every page and on the search page. The index, made by book/_ext/book_index.py,
// is a script of its own, loaded when a reader begins to search; no page on file:// may fetch another file.
"use strict";
(() => {
  const SHOWN = 8;   // results in the dialog
  const statics = new URL(".", document.currentScript.src);
  let loading = null;
  const load = () => loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = new URL("search-index.js", statics);
    script.onload = () => done(unpacked(window.tramplabIndex));
    script.onerror = failed;
    document.head.append(script);
  });

  const unpacked = ({ pages, levels, common, sections, words, hits }) => {
    let before = "";
    const known = words.split(" ").map((word) => before = before.slice(0, word.charCodeAt(0) - 97) + word.slice(1));
    const found = hits.split(" ").map((list) => {
      let at = -1;
      return list.split(",").map((hit) => [at += 1 + Math.floor(hit / levels.length), levels[hit % levels.length]]);
    });
    const index = { pages, sections, known, hits: found, common: new Set(common.split(" ")) };
    index.titles = sections.map(([, , title]) => new Set(taken(title, index.common)));
    index.about = pages.map(([, title]) => new Set(taken(title, index.common)));
    return index;
  };

  // As words() and stem() of book_index.py.
  const stem = (word) => (/[\d_]/.test(word) ? word.replace(/^_+|_+$/g, "").replace(/^v(?=\d+\.)/, "")
    : word.replace(/(?<=\w{3})(?<!s)s$/, "").replace(/(?<=\w{4})(ing|ed)$/, "").replace(/(?<=\w{4})e$/, ""));
  const taken = (text, common) => (text.toLowerCase().match(/v?\d+(?:\.\d+)+|[a-z0-9_]+/g) ?? [])
    .filter((word) => !common.has(word)).map(stem).filter(Boolean);

  // How much a known word is what was asked for: the same, one that begins or, in an identifier, goes on so, or its beginning.
  const likeness = (word, asked) => {
    if (word === asked) return 1;
    if (asked.length > 1 && word.startsWith(asked)) return 0.4 + 0.5 * asked.length / word.length;
    if (asked.length > 2 && word.includes(`_${asked}`)) return 0.3 + 0.5 * asked.length / word.length;
    return word.length > 3 && asked.startsWith(word) && asked.length - word.length < 4 ? 0.5 : 0;
  };
  // What each section has of one word: section -> weight. An identifier is also looked for by its parts, of which all must be there.
  const held = (index, asked) => {
    const found = new Map();
    const note = (section, weight) => { if (weight > (found.get(section) ?? 0)) found.set(section, weight); };
    index.known.forEach((word, n) => {
      const like = likeness(word, asked);
      if (like) for (const [section, weight] of index.hits[n]) note(section, like * weight);
    });
    const parts = asked.split("_").filter(Boolean);
    if (parts.length > 1) {
      const each = parts.map((part) => held(index, stem(part)));
      for (const section of each[0].keys())
        if (each.every((one) => one.has(section))) note(section, 0.6 * Math.min(...each.map((one) => one.get(section))));
    }
    return found;
  };

  // Sections by how many of the words they have, then by how much they are about these: [page, anchor, title, excerpt, page's title].
  const find = (index, query) => {
    const asked = [...new Set(taken(query, index.common))];
    const scores = new Map();
    for (const word of asked) {
      const sections = held(index, word);
      const rare = Math.log(1 + index.sections.length / (1 + sections.size));
      for (const [section, weight] of sections) {
        const had = scores.get(section) ?? { score: 0, words: 0 };
        scores.set(section, { score: had.score + rare * weight, words: had.words + 1 });
      }
    }
    const among = (names) => asked.filter((word) => names.has(word)).length;
    const ranked = [...scores].map(([section, { score, words }]) => {
      const [page] = index.sections[section], named = index.titles[section], about = index.about[page];
      const same = among(named), whole = named.size ? (same / named.size) ** 3 * same / asked.length : 0;   // just what was asked for
      return [section, (score * (1 + 2 * whole) + 0.7 * among(about)) * (words / asked.length) ** 1.5];
    });
    return ranked.sort((a, b) => b[1] - a[1]).map(([section]) => {
      const [page, anchor, title, excerpt] = index.sections[section];
      return [index.pages[page][0], anchor, title, excerpt, index.pages[page][1]];
    });
  };

  const make = (tag, className, ...children) => {
    const element = Object.assign(document.createElement(tag), { className });
    element.append(...children);
    return element;
  };
  // A text with what was asked for marked, where a word begins so.
  const marked = (text, asked) => {
    const said = make("p", "context");
    let last = 0;
    const any = asked.length ? new RegExp(`(?<![a-z0-9])(${asked.map((word) => word.replace(/\./g, "\\.")).join("|")})`, "gi") : null;
    for (const hit of any ? text.matchAll(any) : []) {
      said.append(text.slice(last, hit.index), make("mark", "", hit[0]));
      last = hit.index + hit[0].length;
    }
    said.append(text.slice(last));
    return said;
  };
  const results = (index, query, most) => {
    const asked = taken(query, index.common);
    const found = find(index, query);
    const list = make("ul", "search");
    for (const [page, anchor, title, excerpt, of] of found.slice(0, most)) {
      const link = make("a", "", title);
      link.href = new URL(`../${page}.html?highlight=${encodeURIComponent(query.trim())}#${anchor}`, statics);
      list.append(make("li", "", link, of === title ? "" : ` in ${of}`, marked(excerpt, asked)));
    }
    const count = found.length === 1 ? "One section" : `${found.length || "No"} sections`;
    return [make("p", "tl-count", found.length ? count : `${count} for this. Try another word, or the beginning of one.`), list];
  };
  // Results follow what is typed in a field.
  const follow = (field, place, most) => {
    place.setAttribute("aria-live", "polite");
    const update = async () => {
      const index = await load();
      place.replaceChildren(...(field.value.trim() ? results(index, field.value, most) : []));
    };
    field.addEventListener("focus", load);
    field.addEventListener("input", update);
    if (field.value) update();
  };

  window.tramplabFind = async (query) => find(await load(), query);
  addEventListener("DOMContentLoaded", () => {
    const dialog = document.getElementById("pst-search-dialog"), place = document.getElementById("search-results");
    if (dialog) {
      const found = make("div", "tl-found");
      dialog.append(found);
      const field = dialog.querySelector("input[name=q]");
      follow(field, found, SHOWN);
      dialog.addEventListener("keydown", (event) => {   // from the field through the results and back
        const stops = [field, ...found.querySelectorAll("a")];
        const to = stops.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] ?? NaN);
        if (!stops[to]) return;
        event.preventDefault();
        stops[to].focus();
      });
    }
    if (!place) return;
    const field = document.querySelector("main input[name=q]");
    field.value = new URLSearchParams(location.search).get("q") ?? "";
    follow(field, place, 40);
  });
})();
