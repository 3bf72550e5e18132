import { expect, test } from "vitest";
import type { ComparedPolicy } from "../../api/types";
import { bestOf, compared, gpusOf, groupsOf, isBest, keyOf, whyNone } from "./preview";

const row = (mean: number | null, gpu_hours: number) =>
  ({
    totals: { mean_completion: mean, median_wait: 1, p90_wait: 2, gpu_hours, host_hours: 5, changes: 0 },
  }) as unknown as ComparedPolicy;

test("the best of each column is marked, where there is one", () => {
  const best = bestOf([row(100, 3), row(50, 3), row(null, 9)]);
  expect(best).toEqual({ mean_completion: 50, gpu_hours: 3 });
  expect([isBest(50.1, 50), isBest(51, 50), isBest(null, 50), isBest(5, undefined)]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

test("a policy without figures says why", () => {
  expect(whyNone(null, "it can't be played")).toBe("it can't be played");
  expect(whyNone({ cut: "time" } as ComparedPolicy["totals"], "")).toBe("It takes too long to compute");
});

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

test("policies with the same figures stand together, and those without too", () => {
  const names = ["fifo", "srtf", "las", "edf", "tiresias"].map((algorithm) => ({
    algorithm,
    metric: "default",
  }));
  const failed = { totals: null, problem: "it can't be played" } as ComparedPolicy;
  const rows = [row(100, 3), row(50, 3), row(100.01, 3), row(null, 3), failed];
  const found = new Map(names.map((name, index) => [keyOf(name), rows[index] as ComparedPolicy]));
  const groups = groupsOf(names, found).map((group) => group.map(({ algorithm }) => algorithm));
  expect(groups).toEqual([["fifo", "las"], ["srtf"], ["edf"], ["tiresias"]]);
  expect(groupsOf(names, new Map())).toEqual([names]);
});
