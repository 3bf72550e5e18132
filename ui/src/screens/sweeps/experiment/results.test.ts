import { expect, test } from "vitest";
import type { Analysis, Cell, Experiment, Trial } from "../../../api/types";
import {
  boxOf,
  gapsOf,
  interactionOf,
  lackOf,
  levelsOf,
  meansBy,
  pairsOf,
  responseOf,
  shownP,
  valuesBy,
  within,
} from "./results";

const cell = (levels: Cell["levels"], mean: number, runs = 1): Cell => ({
  levels,
  mean,
  runs,
  low: null,
  high: null,
});
const cells = [
  cell({ gpus: 2, opt: "sgd" }, 4, 3),
  cell({ gpus: 10, opt: "sgd" }, 2),
  cell({ gpus: 2, opt: "adam" }, 8),
];
const run = (params: Trial["params"], time?: number) =>
  ({ params, results: time === undefined ? null : { run_time: time } }) as Trial;

test("levels that are numbers go by size, texts by their letters", () => {
  expect(levelsOf([cell({ n: 10 }, 0), cell({ n: 9 }, 0), cell({ n: 10 }, 0)], "n")).toEqual([9, 10]);
  expect(levelsOf(cells, "opt")).toEqual(["adam", "sgd"]);
});

test("means count each run, not each cell", () => {
  expect(meansBy(cells, "gpus")).toEqual([
    { level: 2, mean: 5, runs: 4 },
    { level: 10, mean: 2, runs: 1 },
  ]);
  const [adam, sgd] = interactionOf(cells, "gpus", "opt");
  expect(sgd?.means.map((each) => each.mean)).toEqual([4, 2]);
  expect(adam).toEqual({ level: "adam", means: [{ level: 2, mean: 8, runs: 1 }] });
});

test("pairs come by what they explain; what has too many levels, or one, is left out", () => {
  const many = Array.from({ length: 12 }, (_, n) => cell({ a: n % 2, b: n % 3, c: n % 4, one: 1, x: n }, n));
  const term = (factors: string[], share: number) => ({ factors, share }) as Analysis["terms"][number];
  const terms = [term(["a"], 0.9), term(["a", "b"], 0.1), term(["b", "c"], 0.3)];
  expect(pairsOf({ cells: many, terms })).toEqual([
    { across: "c", by: "b" },
    { across: "b", by: "a" },
    { across: "c", by: "a" },
  ]);
});

test("the response is the chosen one if runs have it, else the metric, else their time", () => {
  const of = (responses: string[]) => ({ responses, metric: { name: "loss", goal: "min" as const } });
  expect(responseOf("cost", of(["cost", "loss", "run_time"]))).toBe("cost");
  expect(responseOf("beauty", of(["cost", "loss", "run_time"]))).toBe("loss");
  expect(responseOf("", of(["cost", "run_time"]))).toBe("run_time");
  expect(responseOf("", of([]))).toBe("run_time");
});

test("what is missing is told, before and beside an analysis", () => {
  const of = (...table: Trial[]) => lackOf({ table, factors: ["n"], runs: 8 }, "run_time");
  expect(of(run({ n: 1 }, 3), run({ n: 2 }))).toMatch(/so far 1 of 8 have run_time/);
  expect(of(run({ n: 1 }, 3), run({ n: 1 }, 4))).toMatch(/same levels/);
  expect(of(run({ n: 1 }, 3), run({ n: 2 }, 4))).toBeNull();
  const counts = { pending: 1, active: 1, succeeded: 5, failed: 1, cancelled: 0, pruned: 0 };
  const gaps = (runs: number) =>
    gapsOf({ runs: 8, counts } as Pick<Experiment, "runs" | "counts">, { runs } as Analysis);
  expect(gaps(4)).toBe("Based on 4 of 8 runs: 2 have not finished, 1 did not succeed, 1 did not measure it.");
  expect(gaps(8)).toBeNull();
});

test("a box has quartiles, and whiskers that leave out what lies far away", () => {
  expect(boxOf([1, 2, 3, 4, 5])).toEqual({ low: 1, lower: 2, median: 3, upper: 4, high: 5 });
  expect(boxOf([1, 2, 3, 4, 100])).toMatchObject({ low: 1, high: 4, upper: 4 });
  expect(boxOf([7])).toEqual({ low: 7, lower: 7, median: 7, upper: 7, high: 7 });
});

test("values are grouped by level, the smallest first; runs without one are left out", () => {
  const table = [run({ n: 2 }, 3), run({ n: 1 }, 9), run({ n: 2 }, 1), run({ n: 3 })];
  expect(valuesBy(table, "n", "run_time")).toEqual([
    { level: 1, values: [9] },
    { level: 2, values: [1, 3] },
  ]);
});

test("numbers as a table has them", () => {
  expect(within(1.23456, 1.1, 1.3)).toBe("1.235 (1.1 to 1.3)");
  expect(within(2, null, null)).toBe("2");
  expect([0.00012, 0.0412, 1, null].map(shownP)).toEqual(["< 0.001", "0.041", "1.000", ""]);
});
