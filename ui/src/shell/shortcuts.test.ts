import { expect, test } from "vitest";
import { Keys } from "./shortcuts";

test("two keys one after the other go to a screen", () => {
  const keys = new Keys();
  expect(keys.feed("g", 0)).toBeUndefined();
  expect(keys.feed("t", 500)?.to).toBe("/timeline");
});

test("a second key that comes late, or is no shortcut, does nothing", () => {
  const keys = new Keys();
  keys.feed("g", 0);
  expect(keys.feed("t", 5_000)).toBeUndefined();
  keys.feed("g", 6_000);
  expect(keys.feed("x", 6_100)).toBeUndefined();
  expect(keys.feed("n", 6_200)?.to).toBe("/submit");
});
