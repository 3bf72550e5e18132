import type { Job } from "../../api/types";
import { duration } from "../../format/time";

/** Return the jobs with a container on a host, largest loss first. */
export function jobsOn<J extends Pick<Job, "allocation" | "elastic" | "run_seconds">>(
  host: string,
  jobs: readonly J[],
): J[] {
  return jobs
    .filter((job) => Object.hasOwn(job.allocation, host))
    .toSorted((a, b) => Number(a.elastic) - Number(b.elastic) || b.run_seconds - a.run_seconds);
}

/** Return the effect of a drain on a job, and possible losses. */
export function fateOf(job: Pick<Job, "elastic" | "run_seconds">, minutes: number): string {
  if (job.elastic) return "moves at once, and continues from a checkpoint.";
  const when = minutes > 0 ? `is stopped after ${duration(minutes * 60)}` : "is stopped at once";
  const run = duration(job.run_seconds);
  return `${when} and starts elsewhere. Without its own checkpoints it loses ${run} of work.`;
}
