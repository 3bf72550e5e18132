import { expect, test } from "vitest";
import type { JobDetail } from "../../api/types";
import { gpuSecondsAt } from "./gpuTime";

const job = (state: JobDetail["state"], gpus: number) =>
  ({ state, gpu_seconds: 100, gpus: Array.from({ length: gpus }) }) as unknown as JobDetail;

test("the GPU time of a running job goes on with its duration", () => {
  expect(gpuSecondsAt(job("running", 4), 50_000, 60_000)).toBe(140);
  expect(gpuSecondsAt(job("running", 4), 50_000, 49_000)).toBe(100);
  expect(gpuSecondsAt(job("succeeded", 0), 50_000, 60_000)).toBe(100);
  expect(gpuSecondsAt(job("resizing", 4), 50_000, 60_000)).toBe(100);
});
