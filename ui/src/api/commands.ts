import { client, unwrap } from "./client";
import type {
  Advice,
  AdviceSpec,
  Bounds,
  CodeLimits,
  Delivery,
  Eta,
  Gpu,
  Host,
  HostIds,
  HostSpec,
  Job,
  JobSpec,
  LeftBy,
  NewToken,
  Policy,
  PolicyChoice,
  Quota,
  QuotaSpec,
  Role,
  StoredCode,
  TokenSpec,
  User,
  Webhook,
  WebhookSpec,
} from "./types";

const AT_ONCE = 6;

type GpuName = Pick<Gpu, "host" | "uuid">;

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
export type JobBody = Partial<Omit<JobSpec, "shm_size" | "memory" | "gpu_memory">> & {
  shm_size?: string | number;
  memory?: string | number | null;
  gpu_memory?: string | number | null;
};

/** Stores a job. Sent again with the same key, it is still one job. */
/** `envFrom`: id of the job whose values stand for masks in `env`. */
export function submitJob(job: { body: JobBody; key: string; envFrom?: string }): Promise<Job> {
  return unwrap(
    client.POST("/api/v1/jobs", {
      body: job.body as JobSpec,
      params: { header: { "Idempotency-Key": job.key }, query: { env_from: job.envFrom } },
    }),
  );
}

/** How much code may have, and what runs it where no image is named. */
export function codeLimits(): Promise<CodeLimits> {
  return unwrap(client.GET("/api/v1/code"));
}

/** Stores an archive; the same files are stored once. */
export function sendCode(tar: Blob): Promise<StoredCode> {
  return unwrap(
    client.POST("/api/v1/code", {
      body: tar as unknown as string,
      bodySerializer: (body) => body as unknown as Blob,
      headers: { "Content-Type": "application/x-tar" },
    }),
  );
}

/** When such a job would start and end if it were submitted now. */
export function expectJob(body: JobBody): Promise<Eta> {
  return unwrap(client.POST("/api/v1/jobs:preview", { body: body as JobSpec }));
}

/** With which batch size and how many GPUs a job meets an objective. Takes seconds. */
export function advise(spec: AdviceSpec): Promise<Advice> {
  return unwrap(client.POST("/api/v1/advise", { body: spec }));
}

export function choosePolicy(choice: PolicyChoice): Promise<Policy> {
  return unwrap(client.PUT("/api/v1/policy", { body: choice }));
}

/** Takes effect at the next decision. */
export function setPriority({ id, priority }: { id: string; priority: number }): Promise<Job> {
  return unwrap(
    client.PATCH("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, body: { priority } }),
  );
}

/** No job comes any more; elastic ones leave now, others are stopped after so many seconds and start elsewhere. */
export function drainHost({ id, seconds }: { id: string; seconds: number }): Promise<Host> {
  return unwrap(
    client.POST("/api/v1/hosts/{host_id}/drain", {
      params: { path: { host_id: id } },
      body: { deadline_s: seconds },
    }),
  );
}

export function addHost(spec: HostSpec): Promise<Host> {
  return unwrap(client.POST("/api/v1/hosts", { body: spec }));
}

export async function removeHost(id: string): Promise<void> {
  await unwrap(client.DELETE("/api/v1/hosts/{host_id}", { params: { path: { host_id: id } } }));
}

/** A cordoned host keeps its jobs and gets no others. */
export function setCordon({ id, cordoned }: { id: string; cordoned: boolean }): Promise<Host> {
  const path = cordoned ? "/api/v1/hosts/{host_id}/cordon" : "/api/v1/hosts/{host_id}/uncordon";
  return unwrap(client.POST(path, { params: { path: { host_id: id } } }));
}

/** A cordoned GPU keeps its job and gets no other. */
export function cordonGpu(gpu: GpuName): Promise<Host> {
  return unwrap(
    client.POST("/api/v1/hosts/{host_id}/gpus/{gpu}/cordon", {
      params: { path: { host_id: gpu.host, gpu: gpu.uuid } },
    }),
  );
}

/** As `drainHost`, for one GPU. */
export function drainGpu({ gpu, seconds }: { gpu: GpuName; seconds: number }): Promise<Host> {
  return unwrap(
    client.POST("/api/v1/hosts/{host_id}/gpus/{gpu}/drain", {
      params: { path: { host_id: gpu.host, gpu: gpu.uuid } },
      body: { deadline_s: seconds },
    }),
  );
}

/** Resets an idle GPU on its host; takes seconds. */
export function resetGpu(gpu: GpuName): Promise<Host> {
  return unwrap(
    client.POST("/api/v1/hosts/{host_id}/gpus/{gpu}/reset", {
      params: { path: { host_id: gpu.host, gpu: gpu.uuid } },
    }),
  );
}

/** Opens a closed GPU; an operator's word that an unhealthy one is well again. */
export function returnGpu(gpu: GpuName): Promise<Host> {
  return unwrap(
    client.POST("/api/v1/hosts/{host_id}/gpus/{gpu}/return", {
      params: { path: { host_id: gpu.host, gpu: gpu.uuid } },
    }),
  );
}

export function addWebhook(spec: WebhookSpec): Promise<Webhook> {
  return unwrap(client.POST("/api/v1/webhooks", { body: spec }));
}

/** One that is paused gets nothing; what happens meanwhile is not sent later. */
export function setWebhook({ id, active }: { id: number; active: boolean }): Promise<Webhook> {
  return unwrap(
    client.PATCH("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } }, body: { active } }),
  );
}

export async function removeWebhook(id: number): Promise<void> {
  await unwrap(client.DELETE("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));
}

/** Sends a made-up event now. */
export function testWebhook(id: number): Promise<Delivery> {
  return unwrap(client.POST("/api/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id: id } } }));
}

/** The answer is the only place where the token ever stands. */
export function addToken(spec: TokenSpec): Promise<NewToken> {
  return unwrap(client.POST("/api/v1/tokens", { body: spec }));
}

export async function revokeToken(id: number): Promise<void> {
  await unwrap(client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: id } } }));
}

export function addUser(user: { name: string; role: Role }): Promise<User> {
  return unwrap(client.POST("/api/v1/users", { body: user }));
}

/** In force at once, for all their tokens and sessions. */
export function setRole({ name, role }: { name: string; role: Role }): Promise<User> {
  return unwrap(client.PATCH("/api/v1/users/{name}", { params: { path: { name } }, body: { role } }));
}

/** Their tokens and sessions end, their jobs go on. */
/** As whom on the hosts their jobs write folders; nulls: they write none. */
export function setIds({ name, ids }: { name: string; ids: HostIds }): Promise<User> {
  return unwrap(client.PATCH("/api/v1/users/{name}", { params: { path: { name } }, body: ids }));
}

export async function removeUser({ name, left }: { name: string; left: LeftBy }): Promise<void> {
  await unwrap(client.DELETE("/api/v1/users/{name}", { params: { path: { name }, query: left } }));
}

/** `user`: `*` for all who have none of their own. */
export function setQuota({ user, quota }: { user: string; quota: QuotaSpec }): Promise<Quota> {
  return unwrap(client.PUT("/api/v1/quotas/{name}", { params: { path: { name: user } }, body: quota }));
}

export async function removeQuota(user: string): Promise<void> {
  await unwrap(client.DELETE("/api/v1/quotas/{name}", { params: { path: { name: user } } }));
}

/** Makes or changes a group, then puts users in and takes them out, so that it has these `members`. */
export async function setGroup(wanted: {
  name: string;
  bounds: Bounds;
  members: string[];
  before: string[];
}): Promise<void> {
  const { name, bounds, members, before } = wanted;
  await unwrap(client.PUT("/api/v1/groups/{name}", { params: { path: { name } }, body: bounds }));
  const path = "/api/v1/groups/{name}/members/{user}";
  for (const user of members.filter((each) => !before.includes(each)))
    await unwrap(client.PUT(path, { params: { path: { name, user } } }));
  for (const user of before.filter((each) => !members.includes(each)))
    await unwrap(client.DELETE(path, { params: { path: { name, user } } }));
}

export async function removeGroup(name: string): Promise<void> {
  await unwrap(client.DELETE("/api/v1/groups/{name}", { params: { path: { name } } }));
}
