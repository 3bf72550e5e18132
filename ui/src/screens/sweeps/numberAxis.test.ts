import { expect, test } from "vitest";
import { numberAxis } from "./numberAxis";

const texts = (values: number[], most = 5) => numberAxis(values, most).ticks.map((tick) => tick.text);

test("an axis has round ends around its numbers", () => {
  expect(texts([1.2, 3.9])).toEqual(["1", "2", "3", "4"]);
  const { place } = numberAxis([1.2, 3.9], 5);
  expect([1, 2.5, 4].map(place)).toEqual([0, 0.5, 1]);
});

test("one that spans much is logarithmic, and holds all of its numbers", () => {
  const axis = numberAxis([0.5, 200], 4);
  expect(axis.ticks.map((tick) => tick.text)).toEqual(["1", "10", "100"]);
  expect(axis.place(10) - axis.place(1)).toBeCloseTo(axis.place(100) - axis.place(10));
  for (const value of [0.5, 200]) {
    expect(axis.place(value)).toBeGreaterThan(0);
    expect(axis.place(value)).toBeLessThan(1);
  }
  expect(texts([-1, 100]).length).toBeGreaterThan(2); // no logarithm of what is not above zero
});

test("one number alone, or none, has an axis too", () => {
  expect(numberAxis([7], 4).place(7)).toBeGreaterThanOrEqual(0);
  expect(numberAxis([7], 4).place(7)).toBeLessThanOrEqual(1);
  expect(numberAxis([0], 4).ticks.length).toBeGreaterThan(1);
  expect(numberAxis([], 4).ticks.length).toBeGreaterThan(1);
});
