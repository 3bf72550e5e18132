import { expect, test } from "vitest";
import { plural } from "./number";
import { size } from "./size";
import { ago, duration, elapsed, relative, utc, when } from "./time";

test.each([
  [0, "0 s"],
  [0.9, "0 s"],
  [59.9, "59 s"],
  [60, "1 m"],
  [200, "3 m 20 s"],
  [3_600, "1 h"],
  [3_659, "1 h"],
  [90_061, "1 d 1 h"],
  [-5, "0 s"],
])("%d seconds are %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

test("ago names one unit, and a clock that runs ahead is no future", () => {
  const now = Date.parse("2026-05-01T12:00:00Z");
  expect(ago("2026-05-01T11:54:30Z", now)).toBe("5 m ago");
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

test("a time names its day unless it is today's", () => {
  const now = new Date(2026, 10, 22, 14, 2, 10).getTime();
  const at = (...parts: [number, number, number, number, number]) => when(new Date(...parts).getTime(), now);
  expect(at(2026, 10, 22, 0, 0)).toBe("00:00");
  expect(at(2026, 10, 21, 23, 59)).toBe("yesterday 23:59");
  expect(at(2026, 10, 23, 9, 5)).toBe("tomorrow 09:05");
  expect(at(2026, 10, 20, 9, 5)).toBe("20 Nov 09:05");
  expect(at(2025, 10, 22, 9, 5)).toBe("22 Nov 2025 09:05");
  expect(when(now, now, true)).toBe("14:02:10");
  expect(utc("2026-11-21T19:42:07.123Z")).toBe("2026-11-21 19:42:07 UTC");
});

test("a time is told relative to now in one unit", () => {
  expect([-5, 5, -90, 7_300, 200_000].map((s) => relative(s * 1000, 0))).toEqual([
    "just now",
    "just now",
    "1 m ago",
    "in 2 h",
    "in 2 d",
  ]);
});
