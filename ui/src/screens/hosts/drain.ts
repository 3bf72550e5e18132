import type { Job } from "../../api/types";
import { duration } from "../../format/time";

/** Those of the jobs that have a container on a host; the ones that lose most come first. */
export function jobsOn<J extends Pick<Job, "allocation" | "elastic" | "run_seconds">>(
  host: string,
  jobs: readonly J[],
): J[] {
  return jobs
    .filter((job) => Object.hasOwn(job.allocation, host))
    .toSorted((a, b) => Number(a.elastic) - Number(b.elastic) || b.run_seconds - a.run_seconds);
}

/** What a drain does to a job, and what the job may lose. */
export function fateOf(job: Pick<Job, "elastic" | "run_seconds">, minutes: number): string {
  if (job.elastic) return "moves at once, and goes on from a checkpoint.";
  const when = minutes > 0 ? `is stopped after ${duration(minutes * 60)}` : "is stopped at once";
  const run = duration(job.run_seconds);
  return `${when} and starts elsewhere. Without checkpoints of its own it loses its ${run} so far.`;
}
