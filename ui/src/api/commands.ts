import type { Holding } from "../jobs/states";
import { client, unwrap } from "./client";
import type {
  Advice,
  AdviceSpec,
  AskedLogin,
  Bounds,
  CodeLimits,
  Delivery,
  Eta,
  Gpu,
  Guarantee,
  Host,
  HostIds,
  HostSpec,
  Job,
  JobSpec,
  LeftBy,
  NewToken,
  NoticeAddress,
  NoticeAddressSpec,
  Policy,
  PolicyChoice,
  Quota,
  QuotaSpec,
  RegistryLogin,
  RegistryLoginSet,
  RegistryLoginSpec,
  Role,
  StoredCode,
  TokenSpec,
  TrialNotice,
  User,
  Webhook,
  WebhookSpec,
} from "./types";

const AT_ONCE = 6;

type GpuName = Pick<Gpu, "host" | "uuid">;

/** Cancel each job. A job that ended meanwhile does not stop the others from being cancelled. */
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

/** Job as the service accepts it. Sizes may be text such as "8g", which the OpenAPI document omits. */
export type JobBody = Partial<Omit<JobSpec, "shm_size" | "memory" | "gpu_memory" | "gpu_memory_min">> & {
  shm_size?: string | number;
  memory?: string | number | null;
  gpu_memory?: string | number | null;
  gpu_memory_min?: string | number | null;
};

/** Store a job. Sending it again with the same key stores no second job. `envFrom` is the id of the job whose values
 * replace masked values in `env`. */
export function submitJob(job: { body: JobBody; key: string; envFrom?: string }): Promise<Job> {
  return unwrap(
    client.POST("/api/v1/jobs", {
      body: job.body as JobSpec,
      params: { header: { "Idempotency-Key": job.key }, query: { env_from: job.envFrom } },
    }),
  );
}

/** Return the limits for code, and the image of jobs without one. */
export function codeLimits(): Promise<CodeLimits> {
  return unwrap(client.GET("/api/v1/code"));
}

/** Store a code archive. The same files are stored once. */
export function sendCode(tar: Blob): Promise<StoredCode> {
  return unwrap(
    client.POST("/api/v1/code", {
      body: tar as unknown as string,
      bodySerializer: (body) => body as unknown as Blob,
      headers: { "Content-Type": "application/x-tar" },
    }),
  );
}

/** Predict the start and end of a job submitted now. */
export function expectJob(body: JobBody): Promise<Eta> {
  return unwrap(client.POST("/api/v1/jobs:preview", { body: body as JobSpec }));
}

/** Find the batch size and number of GPUs that meet an objective. Takes seconds. */
export function advise(spec: AdviceSpec): Promise<Advice> {
  return unwrap(client.POST("/api/v1/advise", { body: spec }));
}

export function choosePolicy(choice: PolicyChoice): Promise<Policy> {
  return unwrap(client.PUT("/api/v1/policy", { body: choice }));
}

/** Hold, release, pause or resume a job. Repeating it changes nothing. */
export function holdJob({ id, how }: { id: string; how: Holding }): Promise<Job> {
  const params = { params: { path: { job_id: id } } };
  if (how === "hold") return unwrap(client.POST("/api/v1/jobs/{job_id}/hold", params));
  if (how === "pause") return unwrap(client.POST("/api/v1/jobs/{job_id}/pause", params));
  if (how === "resume") return unwrap(client.POST("/api/v1/jobs/{job_id}/resume", params));
  return unwrap(client.POST("/api/v1/jobs/{job_id}/release", params));
}

/** Set the priority of a job. It takes effect at the next decision. */
export function setPriority({ id, priority }: { id: string; priority: number }): Promise<Job> {
  return unwrap(
    client.PATCH("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, body: { priority } }),
  );
}

/** Drain a host. The host gets no new jobs. Elastic jobs leave now. Other jobs are stopped after `seconds` and start
 * elsewhere. */
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

/** Cordon or uncordon a host. A cordoned host keeps its jobs and gets no new ones. */
export function setCordon({ id, cordoned }: { id: string; cordoned: boolean }): Promise<Host> {
  const path = cordoned ? "/api/v1/hosts/{host_id}/cordon" : "/api/v1/hosts/{host_id}/uncordon";
  return unwrap(client.POST(path, { params: { path: { host_id: id } } }));
}

/** Cordon a GPU. A cordoned GPU keeps its job and gets no new one. */
export function cordonGpu(gpu: GpuName): Promise<Host> {
  return unwrap(
    client.POST("/api/v1/hosts/{host_id}/gpus/{gpu}/cordon", {
      params: { path: { host_id: gpu.host, gpu: gpu.uuid } },
    }),
  );
}

/** Drain a GPU, as `drainHost` drains a host. */
export function drainGpu({ gpu, seconds }: { gpu: GpuName; seconds: number }): Promise<Host> {
  return unwrap(
    client.POST("/api/v1/hosts/{host_id}/gpus/{gpu}/drain", {
      params: { path: { host_id: gpu.host, gpu: gpu.uuid } },
      body: { deadline_s: seconds },
    }),
  );
}

/** Reset an idle GPU on its host. Takes seconds. */
export function resetGpu(gpu: GpuName): Promise<Host> {
  return unwrap(
    client.POST("/api/v1/hosts/{host_id}/gpus/{gpu}/reset", {
      params: { path: { host_id: gpu.host, gpu: gpu.uuid } },
    }),
  );
}

/** Uncordon a GPU. For an unhealthy GPU, the operator states that it is healthy again. */
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

/** Pause or resume a webhook. Events during a pause are not sent later. */
export function setWebhook({ id, active }: { id: number; active: boolean }): Promise<Webhook> {
  return unwrap(
    client.PATCH("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } }, body: { active } }),
  );
}

export async function removeWebhook(id: number): Promise<void> {
  await unwrap(client.DELETE("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));
}

/** Send a test event now. */
export function testWebhook(id: number): Promise<Delivery> {
  return unwrap(client.POST("/api/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id: id } } }));
}

/** Add or change one of one's own addresses for notices. */
export function setNoticeAddress({
  name,
  ...body
}: NoticeAddressSpec & { name: string }): Promise<NoticeAddress> {
  return unwrap(client.PUT("/api/v1/notify/{name}", { params: { path: { name } }, body }));
}

export async function removeNoticeAddress(name: string): Promise<void> {
  await unwrap(client.DELETE("/api/v1/notify/{name}", { params: { path: { name } } }));
}

/** Owner of a registry login: a group, everybody (`shared`), or with neither the user. */
interface LoginHolder {
  group?: string;
  shared?: boolean;
}

/** Set a login to a registry. The registry is asked first; a login that it refuses is not stored. */
export function setRegistryLogin({
  registry,
  group,
  shared,
  ...body
}: RegistryLoginSpec & LoginHolder & { registry: string }): Promise<RegistryLoginSet> {
  const params = { path: { name: registry }, query: { group, shared } };
  return unwrap(client.PUT("/api/v1/registries/{name}", { params, body }));
}

export async function removeRegistryLogin(login: RegistryLogin): Promise<void> {
  const query = login.group !== "" ? { group: login.group } : { shared: login.user === "" };
  const params = { path: { name: login.registry }, query };
  await unwrap(client.DELETE("/api/v1/registries/{name}", { params }));
}

/** Send a trial notice now. */
export function testNoticeAddress(name: string): Promise<TrialNotice> {
  return unwrap(client.POST("/api/v1/notify/{name}/test", { params: { path: { name } } }));
}

/** Create a token. Only this reply contains the token itself. */
export function addToken(spec: TokenSpec): Promise<NewToken> {
  return unwrap(client.POST("/api/v1/tokens", { body: spec }));
}

export async function revokeToken(id: number): Promise<void> {
  await unwrap(client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: id } } }));
}

export function addUser(user: { name: string; role: Role }): Promise<User> {
  return unwrap(client.POST("/api/v1/users", { body: user }));
}

/** Set the role of a user. It applies at once to all their tokens and sessions. */
export function setRole({ name, role }: { name: string; role: Role }): Promise<User> {
  return unwrap(client.PATCH("/api/v1/users/{name}", { params: { path: { name } }, body: { role } }));
}

/** Disable a user, so that no token, session or sign-in of theirs works, or enable them again. */
export function setDisabled({ name, disabled }: { name: string; disabled: boolean }): Promise<User> {
  return unwrap(client.PATCH("/api/v1/users/{name}", { params: { path: { name } }, body: { disabled } }));
}

/** Set the ids under which a user's jobs write folders on hosts. With nulls, their jobs write none. */
export function setIds({ name, ids }: { name: string; ids: HostIds }): Promise<User> {
  return unwrap(client.PATCH("/api/v1/users/{name}", { params: { path: { name } }, body: ids }));
}

/** Remove a user. Their tokens and sessions end. `left` says what happens to their jobs, secrets and data. */
export async function removeUser({ name, left }: { name: string; left: LeftBy }): Promise<void> {
  await unwrap(client.DELETE("/api/v1/users/{name}", { params: { path: { name }, query: left } }));
}

/** Set the quota of a user. `*` stands for all users without a quota of their own. */
export function setQuota({ user, quota }: { user: string; quota: QuotaSpec }): Promise<Quota> {
  return unwrap(client.PUT("/api/v1/quotas/{name}", { params: { path: { name: user } }, body: quota }));
}

export async function removeQuota(user: string): Promise<void> {
  await unwrap(client.DELETE("/api/v1/quotas/{name}", { params: { path: { name: user } } }));
}

/** Create or change a group, then adjust its users to `members`. */
export async function setGroup(wanted: {
  name: string;
  bounds: Bounds;
  guarantee: Guarantee;
  members: string[];
  before: string[];
}): Promise<void> {
  const { name, bounds, guarantee, members, before } = wanted;
  const body = { ...bounds, guarantee };
  await unwrap(client.PUT("/api/v1/groups/{name}", { params: { path: { name } }, body }));
  const path = "/api/v1/groups/{name}/members/{user}";
  for (const user of members.filter((each) => !before.includes(each)))
    await unwrap(client.PUT(path, { params: { path: { name, user } } }));
  for (const user of before.filter((each) => !members.includes(each)))
    await unwrap(client.DELETE(path, { params: { path: { name, user } } }));
}

export async function removeGroup(name: string): Promise<void> {
  await unwrap(client.DELETE("/api/v1/groups/{name}", { params: { path: { name } } }));
}

/** Give the command line that asked with this code a token of at most this role. */
export function approveLogin(code: string, role: Role): Promise<AskedLogin> {
  return unwrap(client.POST("/api/v1/logins/{code}/approve", { params: { path: { code } }, body: { role } }));
}

export function refuseLogin(code: string): Promise<AskedLogin> {
  return unwrap(client.POST("/api/v1/logins/{code}/refuse", { params: { path: { code } } }));
}
