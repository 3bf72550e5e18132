import { expect, test } from "vitest";
import { columnsWithGaps } from "./gaps";

test("a hole gets a row of nulls, steps of the usual length do not", () => {
  const rows = [
    [0, 1, 5],
    [60, 2, null],
    [240, 3, 7],
  ];
  expect(columnsWithGaps(rows, 90, 2)).toEqual([
    [0, 60, 150, 240],
    [1, 2, null, 3],
    [5, null, null, 7],
  ]);
  expect(columnsWithGaps([], 90, 1)).toEqual([[], []]);
});
