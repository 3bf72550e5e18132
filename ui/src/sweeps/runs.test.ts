import { expect, test } from "vitest";
import type { Run } from "../api/types";
import { bestFirst, shownValue } from "./runs";

const run = (number: number, best: number | null) => ({ number, best }) as Run;
const order = (runs: Run[]) => runs.map((each) => each.number);

test("the best run comes first, by the goal, and those without a value last", () => {
  const runs = [run(1, null), run(2, 0.5), run(3, 0.1), run(4, null), run(5, 0.5)];
  expect(order(bestFirst(runs, "min"))).toEqual([3, 2, 5, 1, 4]);
  expect(order(bestFirst(runs, "max"))).toEqual([2, 5, 3, 1, 4]);
  expect(order(runs)).toEqual([1, 2, 3, 4, 5]);
});

test("values have six digits", () => {
  expect([0.123456789, 1e-9, 12345678, null].map(shownValue)).toEqual(["0.123457", "1e-9", "12345700", ""]);
});
