// Opens what an address names. Nothing here is needed to read the page.
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
