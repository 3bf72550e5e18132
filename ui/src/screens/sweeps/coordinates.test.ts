import { expect, test } from "vitest";
import type { Run } from "../../api/types";
import { axisOf, merits, metricAxis } from "./coordinates";

const run = (params: Run["params"], best: number | null = null) => ({ params, best }) as Run;
const places = (runs: Run[], name: string) => runs.map(axisOf(name, runs).place);

test("numbers have a scale, one that spans much a logarithmic one", () => {
  expect(places([run({ n: 2 }), run({ n: 4 }), run({ n: 3 })], "n")).toEqual([0, 1, 0.5]);
  const wide = [run({ lr: 1e-4 }), run({ lr: 1e-2 }), run({ lr: 1 })];
  expect(places(wide, "lr").map((at) => at?.toFixed(3))).toEqual(["0.000", "0.500", "1.000"]);
  expect(axisOf("lr", wide).ticks.map((tick) => tick.text)).toEqual(["0.0001", "0.01", "1"]);
});

test("other values stand apart evenly; one alone stands in the middle; what a run lacks has no place", () => {
  const runs = [run({ o: "sgd" }), run({ o: "adam" }), run({ o: true }), run({})];
  expect(places(runs, "o")).toEqual([0, 0.5, 1, null]);
  expect(places([run({ n: 7 })], "n")).toEqual([0.5]);
});

test("many values have few ticks", () => {
  const runs = Array.from({ length: 100 }, (_, index) => run({ n: index, s: `v${index}` }));
  expect(axisOf("n", runs).ticks.map((tick) => tick.text)).toEqual(["0", "24.8", "49.5", "74.3", "99"]);
  expect(axisOf("s", runs).ticks.length).toBeLessThanOrEqual(8);
});

test("merit goes by rank and by the goal", () => {
  const runs = [run({}, 1), run({}, 1e9), run({}, 2), run({})];
  expect(merits(runs, "max")).toEqual([0, 1, 0.5, null]);
  expect(merits(runs, "min")).toEqual([1, 0, 0.5, null]);
  expect(metricAxis("loss", runs).place(run({}))).toBeNull();
});
