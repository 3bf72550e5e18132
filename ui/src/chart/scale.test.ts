import { expect, test } from "vitest";
import { logBounds, logTicks, roundScale, roundStep, ticksOf, withEnds } from "./scale";

const usual = { fromZero: false, whole: false, most: 5 };

test.each([
  [0, 7.3, [0, 2, 4, 6, 8]],
  [0.12, 0.47, [0.1, 0.2, 0.3, 0.4, 0.5]],
  [-3, 4, [-4, -2, 0, 2, 4]],
  [5, 5, [5, 6]],
])("an axis from %d to %d ends at round numbers", (low, high, ticks) => {
  expect(ticksOf(roundScale(low, high, usual))).toEqual(ticks);
});

test("it begins at 0 where it should, and counts have no fractions", () => {
  expect(ticksOf(roundScale(3, 4, { ...usual, fromZero: true }))).toEqual([0, 1, 2, 3, 4]);
  expect(ticksOf(roundScale(0, 1, { fromZero: true, whole: true, most: 5 }))).toEqual([0, 1]);
  expect(roundScale(null, null, usual)).toEqual({ min: 0, max: 1, step: 1 });
});

test("it has no more steps than there is room for", () => {
  for (let at = 1; at < 200; at++) {
    const { min, max, step } = roundScale(at * 0.37, at * 1.91, { ...usual, most: 4 });
    expect(min).toBeLessThanOrEqual(at * 0.37 + 1e-9);
    expect(max).toBeGreaterThanOrEqual(at * 1.91 - 1e-9);
    expect(Math.round((max - min) / step)).toBeLessThanOrEqual(4);
  }
  expect(roundStep(0.3)).toBe(0.5);
});

test("a logarithmic axis goes from one power of ten to another", () => {
  expect(logBounds(0.004, 2)).toEqual([0.001, 10]);
  expect(logBounds(1, 1)).toEqual([1, 10]);
  expect(logTicks(0.001, 10, 4)).toEqual([0.001, 0.01, 0.1, 1, 10]);
  expect(logTicks(1, 10, 5)).toEqual([1, 2, 5, 10]);
  expect(logTicks(1, 1e8, 4)).toEqual([1, 100, 1e4, 1e6, 1e8]);
});

test("the ends of an axis are labelled, and what is too near to them is not", () => {
  expect(withEnds([10, 20, 30], 8, 33, 4)).toEqual([8, 20, 33]);
  expect(withEnds([], 5, 5, 1)).toEqual([5]);
});
