import { expect, test } from "vitest";
import type { Run, Search, SearchTrial } from "../../../api/types";
import { foundJob, shownConfiguration, shownMarks, shownShare, trialsOf } from "./trials";

const trial = (number: number, required_gpus: number, run_time: number | null): SearchTrial => ({
  number,
  job: `job${number}`,
  gpu_type: null,
  required_gpus,
  batch_size: 32,
  run_time,
  cost: run_time === null ? null : run_time * required_gpus,
  value: run_time,
  gain: null,
});
const configuration = (required_gpus: number) => ({ gpu_type: null, required_gpus, batch_size: 32 });
const point = (required_gpus: number, run_time: number) => ({
  ...configuration(required_gpus),
  run_time,
  cost: run_time * required_gpus,
});
const search = {
  tried: [trial(1, 1, 10), trial(2, 4, 4), trial(3, 2, null)],
  best: point(4, 4),
  curve: [point(4, 4), point(1, 10)],
  knee: null,
  found: configuration(4),
} as unknown as Search;
const runs = [
  { number: 1, job: "job1", state: "deleted", params: { required_gpus: 1, batch_size: 32 } },
  { number: 3, job: "job3", state: "timeout", params: { required_gpus: 2, batch_size: 32 } },
  { number: 4, job: "job4", state: "running", params: { required_gpus: 3, batch_size: 32, gpu_type: "T4" } },
] as unknown as Run[];

test("trials that have ended come with what they are, then those that run", () => {
  const rows = trialsOf(search, runs);
  expect(rows.map((row) => [row.number, row.state, row.curved, row.best, shownMarks(row)])).toEqual([
    [1, "deleted", true, false, "on the curve"],
    [2, "succeeded", true, true, "best"],
    [3, "timeout", false, false, ""],
    [4, "running", false, false, ""],
  ]);
  expect(rows[3]).toMatchObject({ gpu_type: "T4", required_gpus: 3, batch_size: 32, run_time: null });
  expect(shownMarks({ best: true, knee: true, curved: true })).toBe("best, knee");
});

test("a configuration, a share and the job that was found", () => {
  expect(shownConfiguration(configuration(1))).toBe("1 GPU, batch 32");
  expect(shownConfiguration({ gpu_type: "A100", required_gpus: 2, batch_size: null })).toBe("2 GPUs of A100");
  expect([0.0834, 1.5, 3e-9, null].map(shownShare)).toEqual(["8.3%", "150%", "< 0.1%", ""]);
  expect(foundJob(search)).toBe("job2");
  expect(foundJob({ ...search, found: null })).toBeNull();
  expect(foundJob({ ...search, found: configuration(2) })).toBeNull(); // that trial failed
});
