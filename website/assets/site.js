// Names for screen readers, and wide tables and code that the keyboard can scroll.
window.addEventListener("load", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
  }
});
