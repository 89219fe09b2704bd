"""What is looked for in an open page: faults that axe-core knows, its weight, and rules of the theme that it misses."""

import contextlib
import functools
import gzip
import sys
from pathlib import Path

import sphinx_design
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import TimeoutError as TooLate

from support import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import book_icons

# -- accessibility

# The theme makes blocks that scroll reachable by keyboard some time after a change; never one that was folded then, which is no
# fault where the keyboard comes to something in it.
REACHABLE = """() => [...document.querySelectorAll("pre, .output")].every(
  (block) => block.scrollWidth <= block.clientWidth || block.tabIndex >= 0 || !block.checkVisibility()
    || [...block.querySelectorAll("a[href], button, summary")].some((one) => one.tabIndex >= 0 && one.checkVisibility()))"""


# Most of axe-core's time goes into what each text stands on. Of texts that look alike, in elements that look alike, up to one that
# has a place of its own, three are asked for, and of links likewise; of what is drawn in SVG none, of which it cannot say.
CONTRASTED = """() => {
  const kinds = new Map(), known = new Map(), asked = new Map();
  const kind = (element) => {
    if (!element) return 0;
    if (!known.has(element)) {
      const look = getComputedStyle(element);
      const apart = /absolute|fixed|sticky/.test(look.position) ? known.size : "";
      const seen = [look.color, look.backgroundColor, look.backgroundImage, look.opacity, look.fontSize, look.fontWeight,
        look.textShadow, look.overflowX];
      const key = [kind(element.parentElement), element.localName, apart, ...seen].join();
      if (!kinds.has(key)) kinds.set(key, kinds.size + 1);
      known.set(element, kinds.get(key));
    }
    return known.get(element);
  };
  for (const element of document.querySelectorAll("body *:not(svg *)")) {
    const text = [...element.childNodes].map((node) => (node.nodeType === Node.TEXT_NODE ? node.data.trim() : "")).join("");
    if (!(text || element.value || element.placeholder) || !element.checkVisibility({ visibilityProperty: true })) continue;
    const key = `${kind(element)} ${text.length > 1}`;  // it cannot say of a single letter either
    asked.set(key, (asked.get(key) ?? 0) + 1);
    element.toggleAttribute("data-contrasted", asked.get(key) <= 3);
  }
  for (const link of document.querySelectorAll("a[href]"))  // axe-core takes no selector with :has()
    link.toggleAttribute("data-linked", link.matches("[data-contrasted], :has([data-contrasted])"));
  axe.configure({ rules: [
    { id: "color-contrast", selector: "[data-contrasted]" },
    { id: "link-in-text-block", selector: "[data-linked]" },  // what tells it from the text around it
  ] });
}"""

# Every rule goes through all elements, and half of them are what charts draw. Of those with the same attributes that stand side by
# side, three are left.
THINNED = """() => {
  const said = new Set(["role", "aria-roledescription", "aria-hidden", "tabindex"]);
  const kind = (element) => [element.localName, ...[...element.attributes].map(({ name, value }) =>
    `${name}=${said.has(name) ? value : value.trim() && "something"}`).sort(), ...[...element.children].map(kind)].join(" ");
  const thin = (element) => {
    const there = new Map();
    for (const child of [...element.children]) {
      const key = kind(child);
      there.set(key, (there.get(key) ?? 0) + 1);
      if (there.get(key) > 3) child.remove();
      else thin(child);
    }
  };
  document.querySelectorAll(".tl-chart svg").forEach(thin);
}"""
# What is violated; a rule that could not be asked is no rule that is kept.
LOOKED = """async ([inside, options]) => {
  const { violations, incomplete } = await axe.run(inside, options);
  for (const { id, nodes } of incomplete)
    for (const check of nodes.flatMap(({ any, all, none }) => [...any, ...all, ...none]))
      if (check.id === "error-occurred") throw new Error(`${id} could not be asked`);
  return violations;
}"""
# What these find is never more than moderate; and rules that are asked for all the same, one of which is still an experiment.
MODERATE = ["heading-order", "page-has-heading-one", "region"]
ALSO = ["landmark-unique", "label-content-name-mismatch"]


def violations(tab, inside: str = "html") -> list[str]:
    """What axe-core calls serious or critical in what the page, or a part of it, shows now, and of what is less what
    ALSO names: rule and element. Charts are only for looking at afterwards: of their marks some are gone."""
    assert tab.evaluate("document.getAnimations().length") == 0, "something moves: open the page with visit()"
    tab.evaluate(Axe().axe_script)
    tab.evaluate(CONTRASTED)
    tab.evaluate(THINNED)
    # no rule that is switched on wants style sheets, for which it would ask under wrong addresses
    rules = {rule: {"enabled": False} for rule in MODERATE} | {rule: {"enabled": True} for rule in ALSO}
    options = {"resultTypes": ["violations"], "preload": False, "rules": rules}
    found = tab.evaluate(LOOKED, [inside, options])
    return sorted(
        f"{violation['id']}: {node['html'][:120]}"
        for violation in found
        if violation["impact"] in ("serious", "critical") or violation["id"] in ALSO
        for node in violation["nodes"]
    )


def unfolded(tab) -> list[str]:
    """The same with everything opened that the page has folded."""
    tab.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    with contextlib.suppress(TooLate):  # axe-core says which
        tab.wait_for_function(REACHABLE, timeout=3000)
    return violations(tab)


# -- citations


def pasted(tab) -> list[tuple[str, str]]:
    """What the buttons of citations put into the clipboard, read back by pasting, which works on file:// too, and what they are
    to: of the first, the middle and the last."""
    boxes = tab.query_selector_all("details.tl-cite")
    found = []
    for box in (boxes[n] for n in sorted({0, len(boxes) // 2, len(boxes) - 1} if boxes else ())):
        box.evaluate("box => { for (let d = box; (d = d.parentElement?.closest('details')); ) d.open = true; }")  # a folded claim
        box.query_selector("summary").click()
        box.query_selector("button.copybtn").click()
        tab.evaluate("document.body.append(document.createElement('textarea'))")
        field = tab.query_selector("body > textarea")
        field.focus()
        tab.keyboard.press("Control+V")
        wanted = box.query_selector("pre").evaluate("pre => pre.firstChild.textContent")
        found.append((field.input_value().rstrip("\n"), wanted.rstrip("\n")))
        field.evaluate("field => field.remove()")
    return found


# Each button pressed, and what is selected when the page copies.
COPIED = """() => {
  let selected = null;
  const copies = () => { selected = document.activeElement.value ?? String(getSelection()); };
  document.addEventListener("copy", copies, true);
  const found = [...document.querySelectorAll("details.tl-cite")].map((box) => {
    selected = null;
    box.querySelector("button.copybtn").click();
    return [selected, box.querySelector("pre").firstChild.textContent].map((text) => text?.trimEnd());
  });
  document.removeEventListener("copy", copies, true);
  return found;
}"""


def copied(tab) -> list[tuple[str, str]]:
    """The same of all citations, as far as the clipboard: what is copied, and what it is to be."""
    return [tuple(texts) for texts in tab.evaluate(COPIED)]


# -- weight

#: Bytes, gzipped: all that a browser asks for to show a page to its end.
PAGE_LIMIT = 200_000
#: The index of the search, which is loaded when a reader begins to search, and grows with the book.
INDEX, INDEX_LIMIT = "_static/search-index.js", 60_000


def weigh(site: Path, asked: set[str]) -> dict[str, int]:
    """Gzipped size of every file of the site that was asked for."""
    return {name: _zipped(path, path.stat().st_mtime_ns) for name in asked if (path := site / name).is_file()}


@functools.cache
def _zipped(path: Path, _changed: int) -> int:
    return len(gzip.compress(path.read_bytes()))


def too_heavy(sizes: dict[str, int]) -> list[str]:
    """What is over a limit."""
    found = [f"the index has {size} bytes"] if (size := sizes.get(INDEX, 0)) > INDEX_LIMIT else []
    if (every := sum(sizes.values())) > PAGE_LIMIT:
        found.append(f"{every} bytes; the largest are {sorted(sizes.items(), key=lambda item: -item[1])[:5]}")
    return found


# -- rules of the theme that book/_ext/book_weight.py leaves out


THEME = book_icons.SCRIPT.parents[1]
WHOLE = {  # as their makers ship them
    "styles/pydata-sphinx-theme.css": THEME / "styles" / "pydata-sphinx-theme.css",
    "sphinx-design.min.css": Path(sphinx_design.__file__).parent / "static" / "sphinx-design.min.css",
}
# Of two sheets, the rules that one has and the other has not: selector, classes of which the page must have all for the rule to
# apply, and what the page is asked for then. Most want a class; where one of several is enough, only the page can say.
LEFT_OUT = """([whole, reduced]) => {
  const selectors = (text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    const walk = (rules) => [...rules].flatMap((rule) => rule.selectorText ?? walk(rule.cssRules ?? []));
    return new Set(walk(sheet.cssRules));
  };
  const kept = selectors(reduced);
  const left = [...selectors(whole)].filter((selector) => !kept.has(selector)).map((selector) => {
    const classes = /[,(]/.test(selector) ? [] : selector.match(/\\.[a-zA-Z_][\\w-]*/g) ?? [];
    // without what depends on the moment; :is() passes over what cannot be asked for
    const plain = selector.replace(/::[\\w-]+|:(before|after|hover|focus[\\w-]*|active|visited|checked|disabled)/g, "");
    return [selector, classes.map((name) => name.slice(1)), `:is(${plain || "*"})`];
  });
  return JSON.stringify(left);  // a text is handed over in no time
}"""
# Selectors of such rules that would apply to something on the page.
MISSED = """(rules) => {
  const there = new Set([...document.querySelectorAll("[class]")].flatMap((element) => [...element.classList]));
  return JSON.parse(rules).filter(([, classes, asked]) => classes.every((name) => there.has(name)) && document.querySelector(asked))
    .map(([selector]) => selector);
}"""
_left_out: dict[tuple[str, str], str] = {}  # the texts of two sheets -> what LEFT_OUT says of them, which no page decides


def missed(tab, site: Path) -> list[str]:
    """Selectors of rules that are missed on the open page as it is now."""
    found = []
    for name, whole in WHOLE.items():
        texts = (whole.read_text("utf-8"), (site / "_static" / name).read_text("utf-8"))
        if texts not in _left_out:
            _left_out[texts] = tab.evaluate(LEFT_OUT, texts)
        found += tab.evaluate(MISSED, _left_out[texts])
    return [selector for selector in found if ".fa-" not in selector]  # icons: see test_weight.py


def opened(tab, site: Path) -> list[str]:
    """The same with menus, a tooltip and the sidebar open, in both themes."""
    tab.evaluate("document.querySelector('.dropdown-download-buttons > button')?.click()")  # the pointer stays where it is
    tab.hover(".theme-switch-button")
    tab.wait_for_selector(".tooltip")
    found = missed(tab, site)
    tab.keyboard.press("Escape")
    tab.click(".theme-switch-button")
    tab.click(".primary-toggle")
    return found + missed(tab, site)
