import type { Gpu, Host, Job } from "../../api/types";

/** GPUs of a host for a job: free ones, and usable ones. */
export interface Offer {
  free: number;
  usable: number;
}

const isUsable = (gpu: Gpu) => !gpu.fault && !gpu.occupied_by && !gpu.unwatched && !gpu.cordoned;

/** Return the hosts that a job could start on, by id. They are the hosts with enough GPUs alone. For a job larger
 * than any host, they are all hosts that accept jobs. The job may have to wait for running jobs to end. */
export function candidates(
  hosts: readonly Pick<Host, "id" | "reachable" | "state" | "gpus">[],
  job: Pick<Job, "required_gpus" | "min_gpus" | "elastic">,
): Map<string, Offer> {
  const wanted = job.elastic ? job.min_gpus : job.required_gpus;
  const open = hosts
    .filter((host) => host.reachable && host.state === "active")
    .map(({ id, gpus }) => ({
      id,
      free: gpus.filter((gpu) => gpu.state === "free").length,
      usable: gpus.filter(isUsable).length,
    }))
    .filter(({ usable }) => usable > 0);
  const alone = open.filter(({ usable }) => usable >= wanted);
  const shown = alone.length > 0 ? alone : open;
  return new Map(shown.map(({ id, free, usable }) => [id, { free, usable }]));
}
