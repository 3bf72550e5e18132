import { expect, test } from "vitest";
import type { Run } from "../api/types";
import { bestFirst, fourDigits, shownKind, shownValue } from "./runs";

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
  expect([0.788572, 1234567, 2, null].map(fourDigits)).toEqual(["0.7886", "1235000", "2", ""]);
});

test("a sweep says what it was started as", () => {
  const plain = { design: null, replications: 1, search: null, prune: null, trials: 6 };
  expect(shownKind(plain)).toBe("sweep");
  expect(shownKind({ ...plain, prune: "median" })).toBe("sweep, pruned by median");
  expect(shownKind({ ...plain, search: "tpe", trials: 30 })).toBe("search by tpe, 30 trials");
  expect(shownKind({ ...plain, search: "cmaes", prune: "asha" })).toBe(
    "search by cmaes, 6 trials, pruned by asha",
  );
  expect(shownKind({ ...plain, design: "search" })).toBe("search");
  expect(shownKind({ ...plain, design: "2k", replications: 3 })).toBe("experiment: 2k, 3 replications");
  expect(shownKind({ ...plain, design: "random" })).toBe("experiment: random, 1 replication");
});
