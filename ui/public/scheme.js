// The chosen colour scheme, set before the first paint, so that a dark page does not flash white.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("mantine-color-scheme-value");
  } catch {
    // Storage is switched off: the system decides.
  }
  if (chosen !== "light" && chosen !== "dark") {
    chosen = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  document.documentElement.setAttribute("data-mantine-color-scheme", chosen);
})();
