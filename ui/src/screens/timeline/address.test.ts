import { expect, test } from "vitest";
import { addressOf, loadedFor, windowOf } from "./address";

const NOW = Date.parse("2026-05-01T12:00:00Z");

test("an address that is fixed comes back as it was", () => {
  const window = { from: NOW - 5_000_000, to: NOW - 1_000_000 };
  expect(windowOf(new URLSearchParams(addressOf(window)), NOW).window).toEqual(window);
});

test("nonsense in the address shows a day", () => {
  for (const text of ["", "span=toString", "from=x&to=y", "from=2026-05-02&to=2026-05-01"]) {
    const { window, name } = windowOf(new URLSearchParams(text), NOW);
    expect(name).toBe("24h");
    expect(window.from).toBe(NOW - 86_400_000);
  }
});

test("what is loaded holds the window, and stays the same while it is panned a little", () => {
  const window = { from: NOW - 9_000_000, to: NOW - 5_400_000 };
  const loaded = loadedFor(window, NOW);
  expect(loaded.from).toBeLessThan(window.from);
  expect(loaded.to ?? NOW).toBeGreaterThanOrEqual(window.to);
  expect(loadedFor({ from: window.from + 1000, to: window.to + 1000 }, NOW)).toEqual(loaded);
});

test("what reaches up to now is open at its end", () => {
  expect(loadedFor({ from: NOW - 3_600_000, to: NOW }, NOW).to).toBeNull();
});
