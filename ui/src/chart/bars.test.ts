import { expect, test } from "vitest";
import { stackedOf, totalOf } from "./bars";

const NONE = new Set<number>();

test("bars stand upon each other", () => {
  const data = [
    [0, 1],
    [1, 2],
    [null, 3],
    [4, null],
  ] as const;
  expect(stackedOf(data, NONE)).toEqual([
    [1, 2],
    [1, 5],
    [5, 5],
  ]);
});

test("what is hidden leaves no gap", () => {
  const data = [[0], [1], [2], [4]] as const;
  expect(stackedOf(data, new Set([1]))).toEqual([[1], [1], [5]]);
  expect(stackedOf(data, new Set([0, 1, 2]))).toEqual([[0], [0], [0]]);
});

test("a column is summed where it has values", () => {
  expect(totalOf([1, null, 2])).toBe(3);
  expect(totalOf([null])).toBeNull();
  expect(totalOf(undefined)).toBeNull();
});
