// Loads the page again when its own code or style does not arrive. Not in the bundle: it must work without it. A network
// that changes cuts off whatever a browser is loading, and a service that restarts answers nothing for a moment.
(() => {
  const KEY = "schedulearn-loads-that-failed";
  const WAITS_MS = [250, 1000, 3000]; // so often and no more: then the page says what is wrong
  const MEMORY_MS = 60000;
  let failed = false;

  const told = () => document.getElementById("not-loaded");

  /** The loads that failed within the last minute, this one too; none where there is no memory of them. */
  function remember() {
    try {
      const now = Date.now();
      const before = JSON.parse(sessionStorage.getItem(KEY) || "[]").filter((at) => now - at < MEMORY_MS);
      sessionStorage.setItem(KEY, JSON.stringify([...before, now]));
      return before.length;
    } catch {
      return WAITS_MS.length;
    }
  }

  /** Loads the page again once it is there: a browser replaces one that is not by a page of its own. */
  async function again(wait) {
    await new Promise((done) => setTimeout(done, wait));
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.ok) return location.reload();
    } catch {
      // It is not there yet.
    }
    const text = told();
    if (text) text.dataset.shown = "true";
    again(Math.min(Math.max(wait, 500) * 2, 15000));
  }

  addEventListener(
    "error",
    (event) => {
      const file = event.target;
      const needed =
        (file instanceof HTMLScriptElement && file.type === "module") ||
        (file instanceof HTMLLinkElement && file.rel === "stylesheet");
      if (failed || !needed) return;
      failed = true;
      const wait = WAITS_MS[remember()];
      const text = told();
      if (wait !== undefined) again(wait);
      else if (text) text.dataset.shown = "true";
    },
    true,
  );
})();
