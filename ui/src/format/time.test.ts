import { expect, test } from "vitest";
import { plural, size } from "./size";
import { ago, duration, elapsed } from "./time";

test.each([
  [0, "0s"],
  [0.9, "0s"],
  [59.9, "59s"],
  [60, "1m"],
  [200, "3m 20s"],
  [3_600, "1h"],
  [3_659, "1h"],
  [90_061, "1d 1h"],
  [-5, "0s"],
])("%d seconds are %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

test("ago names one unit, and a clock that runs ahead is no future", () => {
  const now = Date.parse("2026-05-01T12:00:00Z");
  expect(ago("2026-05-01T11:54:30Z", now)).toBe("5m ago");
  expect(ago("2026-05-01T12:00:03Z", now)).toBe("just now");
});

test("elapsed stops at the end, and has not begun before the start", () => {
  const now = Date.parse("2026-05-01T12:00:00Z");
  expect(elapsed(null, null, now)).toBeNull();
  expect(elapsed("2026-05-01T11:59:00Z", null, now)).toBe(60);
  expect(elapsed("2026-05-01T11:00:00Z", "2026-05-01T11:00:05Z", now)).toBe(5);
});

test("sizes count by 1024", () => {
  expect(size(0)).toBe("0 B");
  expect(size(1 << 30)).toBe("1 GiB");
  expect(size(1.5 * 2 ** 20)).toBe("1.5 MiB");
  expect(plural(1, "GPU")).toBe("1 GPU");
});
