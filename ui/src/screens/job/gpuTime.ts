import type { JobDetail } from "../../api/types";

/** What a job has taken of GPUs by `now`, of what was told at `readAt` (epoch ms). A pause and a start count as nothing. */
export function gpuSecondsAt(
  job: Pick<JobDetail, "state" | "gpu_seconds" | "gpus">,
  readAt: number,
  now: number,
): number {
  if (job.state !== "running") return job.gpu_seconds;
  return job.gpu_seconds + (Math.max(0, now - readAt) / 1000) * job.gpus.length;
}
