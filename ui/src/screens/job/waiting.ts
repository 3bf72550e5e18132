import type { Host, Job } from "../../api/types";

interface Room {
  host: string;
  free: number;
  gpus: number;
}

/** Return the free GPUs of each host that accepts jobs, most first. */
export function roomOf(hosts: readonly Pick<Host, "id" | "reachable" | "state" | "gpus">[]): Room[] {
  return hosts
    .filter((host) => host.reachable && host.state === "active")
    .map((host) => ({
      host: host.id,
      free: host.gpus.filter((gpu) => gpu.state === "free").length,
      gpus: host.gpus.length,
    }))
    .toSorted((a, b) => b.free - a.free || a.host.localeCompare(b.host));
}

/** Return the jobs that hold GPUs by their predicted end. Those without one come last. */
export function byEnd<J extends Pick<Job, "eta" | "gpus">>(holders: readonly J[]): J[] {
  const end = (job: J) => (job.eta?.end ? Date.parse(job.eta.end) : Number.POSITIVE_INFINITY);
  return holders.filter((job) => job.gpus.length > 0).toSorted((a, b) => end(a) - end(b));
}

/** Return smaller GPU counts to try: half, then half of that. */
export function fewer(gpus: number): number[] {
  const half = Math.floor(gpus / 2);
  return half < 1 ? [] : [half, ...(half > 1 ? [Math.floor(half / 2)] : [])];
}
