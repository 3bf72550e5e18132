import { client, unwrap } from "./client";
import type { Host, Job, JobSpec, Policy, PolicyChoice } from "./types";

const AT_ONCE = 6;

/** Cancels each job; one that ended meanwhile does not keep the others from it. */
export async function cancelJobs(ids: string[]): Promise<{ done: number; failed: Error[] }> {
  const waiting = [...ids];
  const failed: Error[] = [];
  async function work() {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      try {
        await unwrap(client.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: id } } }));
      } catch (error) {
        failed.push(error as Error);
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { done: ids.length - failed.length, failed };
}

/** Sizes may be written as "8g", which the document does not say. */
export type JobBody = Partial<Omit<JobSpec, "shm_size">> & { shm_size?: string | number };

/** Stores a job. Sent again with the same key, it is still one job. */
export function submitJob({ body, key }: { body: JobBody; key: string }): Promise<Job> {
  return unwrap(
    client.POST("/api/v1/jobs", { body: body as JobSpec, params: { header: { "Idempotency-Key": key } } }),
  );
}

export function choosePolicy(choice: PolicyChoice): Promise<Policy> {
  return unwrap(client.PUT("/api/v1/policy", { body: choice }));
}

/** A cordoned host keeps its jobs and gets no others. */
export function setCordon({ id, cordoned }: { id: string; cordoned: boolean }): Promise<Host> {
  const path = cordoned ? "/api/v1/hosts/{host_id}/cordon" : "/api/v1/hosts/{host_id}/uncordon";
  return unwrap(client.POST(path, { params: { path: { host_id: id } } }));
}
