import type { JobDetail } from "../../api/types";

/** Return the GPU-seconds of a job by `now`. The job was read at `readAt` (epoch ms). Time paused or starting does
 * not count. */
export function gpuSecondsAt(
  job: Pick<JobDetail, "state" | "gpu_seconds" | "gpus">,
  readAt: number,
  now: number,
): number {
  if (job.state !== "running") return job.gpu_seconds;
  return job.gpu_seconds + (Math.max(0, now - readAt) / 1000) * job.gpus.length;
}
