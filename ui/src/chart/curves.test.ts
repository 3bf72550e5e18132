import { expect, test } from "vitest";
import type { Profile } from "../api/types";
import { axesOf, curvesOf, epochAt, metricsOf, smoothed } from "./curves";

const profile = (metrics: Record<string, number[][]>) => ({ metrics }) as unknown as Profile;

test("curves share an axis, by step or from each job's own beginning", () => {
  const both = [
    profile({
      loss: [
        [0, 2, 600],
        [10, 1, 720],
      ],
    }),
    profile({ loss: [[5, 3, 6000]] }),
  ];
  expect(curvesOf(both, "loss", "step")).toEqual([
    [0, 5, 10],
    [2, null, 1],
    [null, 3, null],
  ]);
  expect(curvesOf(both, "loss", "time")).toEqual([
    [0, 2],
    [2, 1],
    [3, null],
  ]);
  expect(curvesOf(both, "loss", "time", true)[0]).toEqual([600, 720, 6000]);
  expect(curvesOf([undefined], "loss", "step")).toEqual([[], []]);
});

test("by epoch, a step lies between those at which the epoch was logged", () => {
  const epochs = [
    [0, 0, 1],
    [100, 2, 2],
  ];
  expect([epochAt(0, epochs), epochAt(50, epochs), epochAt(101, epochs)]).toEqual([0, 1, null]);
  const job = profile({ epoch: epochs, loss: [[25, 3, 1]] });
  expect(curvesOf([job], "loss", "epoch")).toEqual([[0.5], [3]]);
  expect(axesOf([job])).toEqual(["step", "time", "epoch"]);
  expect(axesOf([profile({ loss: [] })])).toEqual(["step", "time"]);
  expect(metricsOf([job, undefined])).toEqual(["loss"]);
});

test("smoothing keeps the level from the first value on, and holes", () => {
  expect(smoothed([4, 4, null, 4], 0.9)).toEqual([4, 4, null, 4]);
  expect(smoothed([1, 3], 0.5)).toEqual([1, (0.25 * 1 + 0.5 * 3) / 0.75]);
  expect(smoothed([1, 2, 3], 0)).toEqual([1, 2, 3]);
});
