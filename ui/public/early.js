// What is done before the bundle is there.

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

// The service's newest event, asked for before anything else: events from there on tell what of the rest has changed
// since it was read, and nothing need be read twice.
window.newestEvent = fetch("/api/v1/events?limit=1", { cache: "no-store" })
  .then((answer) => (answer.ok ? answer.json() : null))
  .then((found) => found && String(found.items.at(-1)?.id ?? 0))
  .catch(() => null);
