import { expect, test } from "vitest";
import type { JobDetail, Profile } from "../../api/types";
import { allocationOf, progressOf, progressText, scalingOf, stepTimesOf } from "./training";

type Task = JobDetail["tasks"][number];
const at = (s: number) => new Date(s * 1000).toISOString();
const task = (begin: number, end: number | null, gpus: number) =>
  ({
    created_at: at(begin),
    finished_at: end === null ? null : at(end),
    gpu_uuids: Array.from({ length: gpus }, (_, index) => `g${index}`),
  }) as Task;
const seen = (num_gpus: number, atomic_batch: number, passes: number, grad_time = 0.1, iter_time = 0.15) => ({
  gpu_type: "t",
  num_nodes: 1,
  num_gpus,
  atomic_batch,
  passes,
  grad_time,
  iter_time,
});
const profile = (fields: Partial<Profile>) =>
  ({ observations: [], predictions: [], ...fields }) as unknown as Profile;

test("between two attempts it holds nothing, and what runs goes on up to now", () => {
  expect(allocationOf([task(10, 20, 2), task(25, null, 4)], 60_000)).toEqual([
    [10, 20, 25, 60],
    [2, 0, 4, 4],
  ]);
});

test("a gang's containers count together", () => {
  expect(allocationOf([task(10, 30, 2), task(10, 20, 2)], 0)).toEqual([
    [10, 20, 30],
    [4, 2, 0],
  ]);
});

test("time for the exchange is what a step takes beyond its gradient", () => {
  const [first, second] = stepTimesOf([seen(2, 32, 5), seen(1, 64, 9, 0.2, 0.2), seen(2, 64, 50)]);
  expect(first).toMatchObject({ gpus: 1, compute: 0.2, sync: 0 });
  expect(second).toMatchObject({ gpus: 2, batch: 64, compute: 0.1 });
  expect(second?.sync).toBeCloseTo(0.05);
  expect(second?.throughput).toBeCloseTo(128 / 0.15);
});

test("measured throughput stands beside what is predicted, where there is some", () => {
  const predictions = [1, 2].map((num_gpus) => ({
    num_gpus,
    num_nodes: 1,
    throughput: 100 * num_gpus,
    goodput: 90 * num_gpus,
    atomic_batch: 1,
    accumulation: 0,
  }));
  const found = scalingOf(profile({ predictions, observations: [seen(2, 30, 1), seen(2, 15, 9)] }));
  expect(found).toEqual([
    [1, 2],
    [100, 200],
    [90, 180],
    [null, 400],
  ]);
});

test("progress counts the part of the present epoch", () => {
  const progress = { epoch: 1, epochs: 4, position: 50, epoch_samples: 100, steps: 7 };
  expect(progressOf(profile({ progress }))).toBe(0.375);
  expect(progressOf(profile({ progress: { ...progress, epochs: null } }))).toBeNull();
  expect(progressOf(profile({ progress: null }))).toBeNull();
});

test("progress in the log stands in for reports, and says so", () => {
  const logged_progress = { epoch: 2, epochs: 4, position: 0, epoch_steps: 0, fraction: 0.5 };
  const found = profile({ progress: null, logged_progress });
  expect(progressOf(found)).toBe(0.5);
  expect(progressText(found, 0.5)).toBe("epoch 3 of 4, 50%, read from the log");
  const steps = { epoch: 0, epochs: 1, position: 450, epoch_steps: 1000, fraction: 0.45 };
  expect(progressText(profile({ progress: null, logged_progress: steps }), 0.45)).toBe(
    "step 450 of 1000, 45%, read from the log",
  );
  const progress = { epoch: 1, epochs: 4, position: 50, epoch_samples: 100, steps: 7 };
  expect(progressText(profile({ progress, logged_progress }), 0.375)).toBe("epoch 2 of 4, 37%");
});
