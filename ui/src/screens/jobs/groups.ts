import type { Job } from "../../api/types";

/** Listed runs of a sweep, shown as one row. */
export interface Group {
  sweep: string;
  jobs: Job[];
  open: boolean;
}

/** Row of the table. */
export type Entry = { job: Job; inGroup: boolean; group?: undefined } | { group: Group; job?: undefined };

export const keyOf = (entry: Entry) => (entry.group ? `sweep ${entry.group.sweep}` : entry.job.id);

/** Return the jobs of an entry. */
export const jobsOf = (entry: Entry) => (entry.group ? entry.group.jobs : [entry.job]);

/** Group runs of a sweep into one row. The row is at the place of the first run. The runs of an open sweep follow
 * it. A single run stays a job. */
export function entriesOf(rows: readonly Job[], open: ReadonlySet<string>): Entry[] {
  const runs = new Map<string, Job[]>();
  for (const job of rows) {
    if (job.sweep) runs.set(job.sweep, [...(runs.get(job.sweep) ?? []), job]);
  }
  const entries: Entry[] = [];
  const told = new Set<string>();
  for (const job of rows) {
    const jobs = (job.sweep && runs.get(job.sweep)) || [];
    if (!job.sweep || jobs.length < 2) {
      entries.push({ job, inGroup: false });
      continue;
    }
    if (told.has(job.sweep)) continue;
    told.add(job.sweep);
    const isOpen = open.has(job.sweep);
    entries.push({ group: { sweep: job.sweep, jobs, open: isOpen } });
    if (isOpen) for (const each of jobs) entries.push({ job: each, inGroup: true });
  }
  return entries;
}

/** Return the earliest start, and the latest end once all have ended. */
export function spanOf(jobs: readonly Job[]): { start: string | null; end: string | null } {
  const starts = jobs.flatMap((job) => job.started_at ?? []).toSorted();
  const ends = jobs.map((job) => job.finished_at);
  return {
    start: starts[0] ?? null,
    end: ends.includes(null) ? null : ((ends as string[]).toSorted().at(-1) ?? null),
  };
}
