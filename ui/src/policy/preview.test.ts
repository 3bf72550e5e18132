import { expect, test } from "vitest";
import { compared, gpusOf } from "./preview";

test.each([
  [100, 80, "−20%", true],
  [100, 103.2, "+3.2%", false],
  [100, 100.2, "the same", undefined],
  [0, 0, "the same", undefined],
  [0, 5, "more", false],
  [null, 5, "–", undefined],
])("%s against %s", (now, then, text, better) => {
  expect(compared(now, then)).toEqual({ text, better });
});

test("GPUs are counted over hosts", () => {
  expect(gpusOf({ a: 2, b: 3 })).toBe(5);
  expect(gpusOf({})).toBe(0);
});
