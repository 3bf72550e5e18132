import type { JobBody } from "../api/commands";
import type { Job } from "../api/types";

/** Form values as typed. They are texts, so that empty differs from zero. */
export interface Values {
  name: string;
  type: string;
  container_image: string;
  command: string;
  required_gpus: string | number;
  launcher: string;
  elastic: boolean;
  min_gpus: string | number;
  max_gpus: string | number;
  preemptible: boolean;
  priority: string | number;
  weight: string | number;
  deadline: string;
  max_duration: string | number;
  max_restarts: string | number;
  grace_period: string | number;
  batch_size: string | number;
  max_batch_size: string | number;
  epochs: string | number;
  shm_size: string;
  cpus: string | number;
  memory: string;
  mounts: string;
  resize: string;
  family: string;
  gpu_type: string;
  gpu_memory: string;
  gpu_memory_min: string;
  /** Names and labels, with commas. */
  hosts: string;
  exclude_hosts: string;
  exclusive: boolean;
  metric: string;
  on_hang: string;
  pull: string;
  setup: string;
  env: string;
  labels: string;
  /** Recipients of notices, with commas. */
  notify: string;
  user: string;
  /** Keys of a job without a form field. They are sent unchanged. */
  more: Pick<JobBody, (typeof MORE)[number]>;
}

const MORE = [
  "after",
  "code",
  "data",
  "description",
  "hold",
  "idle_timeout",
  "keep",
  "log_metrics",
  "notify_on",
  "ports",
  "requirements",
  "secrets",
  "start_after",
] as const;

type Missing = Exclude<keyof JobBody, keyof Values | (typeof MORE)[number]>;
true satisfies [Missing] extends [never] ? true : Missing; // otherwise a clone would lose a key of a job

export const EMPTY: Values = {
  name: "",
  type: "",
  container_image: "",
  command: "",
  required_gpus: 1,
  launcher: "",
  elastic: false,
  min_gpus: "",
  max_gpus: "",
  preemptible: false,
  priority: "",
  weight: "",
  deadline: "",
  max_duration: "",
  max_restarts: "",
  grace_period: "",
  batch_size: "",
  max_batch_size: "",
  epochs: "",
  shm_size: "",
  cpus: "",
  memory: "",
  mounts: "",
  resize: "",
  family: "",
  gpu_type: "",
  gpu_memory: "",
  gpu_memory_min: "",
  hosts: "",
  exclude_hosts: "",
  exclusive: false,
  metric: "",
  on_hang: "",
  pull: "",
  setup: "",
  env: "",
  labels: "",
  notify: "",
  user: "",
  more: {},
};

const OPTIONAL_NUMBERS = [
  "min_gpus",
  "max_gpus",
  "priority",
  "weight",
  "max_duration",
  "max_restarts",
  "grace_period",
  "batch_size",
  "max_batch_size",
  "epochs",
  "cpus",
] as const;
const OPTIONAL_TEXTS = [
  "launcher",
  "shm_size",
  "memory",
  "resize",
  "user",
  "family",
  "gpu_type",
  "gpu_memory",
  "gpu_memory_min",
  "hosts",
  "exclude_hosts",
  "metric",
  "on_hang",
  "pull",
  "setup",
] as const;
/** The service's replacement for a value that may be a secret. */
const MASK = "********";

/** Parse data sets, one per line. A line is NAME (mounted below /data) or NAME=path in the container. */
function parseMounts(text: string): Record<string, string> {
  const names = text.split("\n").filter((line) => line.trim() !== "");
  return mountsOf(names.map((line) => line.trim()));
}

function mountsOf(value: unknown): Record<string, string> {
  if (!Array.isArray(value)) return value as Record<string, string>;
  return Object.fromEntries(
    value.map((entry: string) => {
      const [name = "", path] = entry.split(/=(.*)/s);
      return [name.trim(), path?.trim() || `/data/${name.trim()}`];
    }),
  );
}

/** Parse NAME=value lines into an object. Throw an Error that names the first invalid line. */
export function parsePairs(text: string): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`Line ${index + 1} must be NAME=value.`);
    pairs[line.slice(0, at).trim()] = line.slice(at + 1).replace(/\r$/, "");
  }
  return pairs;
}

/** Build the request body. It always contains the five required keys, so that the service can validate them. It
 * contains other keys only if set. */
export function toBody(values: Values): JobBody {
  const body: JobBody = {
    ...values.more,
    name: values.name,
    type: values.type,
    container_image: values.container_image,
    command: values.command,
    required_gpus: values.required_gpus === "" ? undefined : Number(values.required_gpus),
  };
  for (const key of OPTIONAL_NUMBERS) {
    if (values[key] !== "") body[key] = Number(values[key]);
  }
  // Texts with a fixed set of values come from a list, or from JSON that the service validates.
  const texts: Record<string, unknown> = body;
  for (const key of OPTIONAL_TEXTS) {
    if (values[key]) texts[key] = values[key];
  }
  if (values.elastic) body.elastic = true;
  if (values.preemptible) body.preemptible = true;
  if (values.exclusive) body.exclusive = true;
  // As in `schedulearn run`, code on one GPU needs no launcher.
  if (!values.launcher && values.more.code && !values.elastic && Number(values.required_gpus) <= 1)
    body.launcher = "none";
  if (values.deadline) body.deadline = new Date(values.deadline).toISOString();
  if (values.mounts.trim()) body.mounts = parseMounts(values.mounts);
  if (values.env.trim()) body.env = parsePairs(values.env);
  if (values.labels.trim()) body.labels = parsePairs(values.labels);
  const recipients = values.notify.split(",").map((each) => each.trim());
  if (values.notify.trim()) body.notify = recipients.filter((each) => each !== "");
  return body;
}

/** Return the digest of a job's code. It is empty without code, or with a git repository. */
export function digestOf(values: Pick<Values, "more">): string {
  const { code } = values.more;
  if (typeof code === "string") return code;
  return code && "digest" in code && typeof code.digest === "string" ? code.digest : "";
}

/** Return the names of variables with masked values. */
export function hiddenIn(env: Record<string, unknown> = {}): string[] {
  return Object.keys(env).filter((name) => env[name] === MASK);
}

/** Return the specification of a job. Masked values stay masked: the service takes them from this job. */
export function specOf(job: Job): JobBody {
  const more = MORE.filter((key) => isGiven(job[key]) && !isUsual(key, job)).map((key) => [key, job[key]]);
  return {
    ...(Object.fromEntries(more) as Values["more"]),
    name: job.name,
    type: job.type,
    container_image: job.container_image,
    command: job.command,
    required_gpus: job.required_gpus,
    launcher: job.launcher as JobBody["launcher"],
    elastic: job.elastic,
    preemptible: job.preemptible,
    ...(job.elastic && { min_gpus: job.min_gpus, max_gpus: job.max_gpus }),
    priority: job.priority,
    weight: job.weight,
    ...(job.deadline !== null && { deadline: job.deadline }),
    ...(job.max_duration !== null && { max_duration: job.max_duration }),
    max_restarts: job.max_restarts,
    grace_period: job.grace_period,
    ...(job.batch_size !== null && { batch_size: job.batch_size }),
    ...(job.max_batch_size !== null && { max_batch_size: job.max_batch_size }),
    ...(job.epochs !== null && { epochs: job.epochs }),
    shm_size: job.shm_size,
    ...(job.cpus !== null && { cpus: job.cpus }),
    ...(job.memory !== null && { memory: job.memory }),
    ...(Object.keys(job.mounts ?? {}).length > 0 && { mounts: job.mounts }),
    ...(job.elastic && { resize: job.resize as JobBody["resize"] }),
    env: job.env,
    labels: job.labels,
    ...(isGiven(job.notify) && { notify: job.notify }),
    user: job.user,
    family: job.family,
    ...(job.code && { code: { digest: job.code.digest } }),
    ...(job.setup && { setup: job.setup }),
    ...(job.metric && { metric: job.metric }),
    ...(job.gpu_type && { gpu_type: job.gpu_type }),
    ...(job.gpu_memory && { gpu_memory: job.gpu_memory }),
    ...(job.gpu_memory_min && { gpu_memory_min: job.gpu_memory_min }),
    ...(isGiven(job.hosts) && { hosts: job.hosts }),
    ...(isGiven(job.exclude_hosts) && { exclude_hosts: job.exclude_hosts }),
    ...(job.exclusive && { exclusive: true }),
    ...(job.on_hang && { on_hang: job.on_hang }),
    ...(job.log_metrics === false && { log_metrics: false }),
    ...(job.pull === "always" && { pull: job.pull }),
  };
}

/** Parse a job's JSON into form values. Throw an Error with a sentence if it is invalid or has an unknown key. */
export function fromJson(text: string): Values {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new Error(`Invalid JSON: ${(error as Error).message}`);
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new Error("A job must be a JSON object, in braces.");
  }
  const unknown = Object.keys(body).filter(
    (key) => key === "more" || !(Object.hasOwn(EMPTY, key) || isMore(key)),
  );
  if (unknown.length > 0) throw new Error(`Unknown key of a job: ${unknown.join(", ")}.`);
  return fromBody(body as JobBody);
}

/** Return the form values for a request body. */
export function fromBody(body: JobBody): Values {
  const values: Record<string, unknown> = { ...EMPTY };
  const more: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(body)) {
    if (value === null || value === undefined) continue;
    if (isMore(key)) more[key] = value;
    else if (key === "env" || key === "labels") values[key] = linesOf(value as Record<string, string>);
    else if (key === "mounts") values[key] = linesOf(mountsOf(value));
    else if (key === "notify") values[key] = [value].flat().join(", ");
    else if (key === "hosts" || key === "exclude_hosts") values[key] = termsOf(value).join(", ");
    else if (key === "gpu_type") values[key] = [value].flat().join(",");
    else if (key === "deadline") values[key] = localTime(String(value));
    else values[key] = SIZES.includes(key) ? String(value) : value;
  }
  return { ...values, more } as unknown as Values;
}

const isMore = (key: string) => (MORE as readonly string[]).includes(key);

/** Whether a key no longer has an effect: its time has passed. */
const isUsual = (key: string, job: Job) =>
  key === "log_metrics"
    ? job.log_metrics === true
    : key === "start_after" && job.start_after !== null && Date.parse(job.start_after) <= Date.now();

const isGiven = (value: unknown) =>
  value !== null &&
  value !== false &&
  value !== undefined &&
  !(typeof value === "object" && Object.keys(value).length === 0);

const linesOf = (pairs: Record<string, string>) =>
  Object.entries(pairs)
    .map(([name, value]) => `${name}=${value}`)
    .join("\n");

/** Return names and labels of hosts, which may be a text, a list, or labels with one or more values each. */
function termsOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [value].flat().map(String);
  return Object.entries(value).flatMap(([key, values]) => [values].flat().map((each) => `${key}=${each}`));
}

const SIZES = ["shm_size", "memory", "gpu_memory", "gpu_memory_min"];

/** Format a time for a form field: local, to the minute. */
function localTime(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
