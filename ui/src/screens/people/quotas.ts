import type { Bounds, Group, Guarantee, Quota, QuotaSpec } from "../../api/types";
import { amount, count } from "../../format/number";

/** Quota name for all users without a quota of their own. */
export const EVERYBODY = "*";

export interface Use {
  name: string;
  used: string;
  bound: string;
  /** From 0 to 1. */
  share: number;
}

/** Return the limits of a quota, and their usage. */
export function usesOf(quota: Quota | Group): Use[] {
  const { used, gpus, gpu_hours, waiting, cpu_jobs, cpus, memory_gib } = quota;
  if (!used) return [];
  const uses: Use[] = [];
  const add = (name: string, has: number, bound: number | null, show: (value: number) => string) => {
    if (bound === null) return;
    const share = bound > 0 ? Math.min(1, has / bound) : 1;
    uses.push({ name, used: show(has), bound: show(bound), share });
  };
  add("GPUs at once", used.gpus, gpus, count);
  add("GPU-hours in seven days", used.gpu_hours, gpu_hours, amount);
  add("Jobs waiting", used.waiting, waiting, count);
  add("Jobs without GPUs", used.cpu_jobs, cpu_jobs, count);
  add("Processors of jobs without GPUs", used.cpus, cpus, amount);
  add("GiB of memory of jobs without GPUs", used.memory_gib, memory_gib, amount);
  return uses;
}

/** Format usage: "6 of 8". Without a limit, only the usage is shown. */
export function bounded(
  used: number | undefined,
  bound: number | null,
  show: (value: number) => string,
): string {
  if (bound === null) return used === undefined ? "–" : `${show(used)}, no limit`;
  return used === undefined ? show(bound) : `${show(used)} of ${show(bound)}`;
}

/** Form fields of a quota as typed; empty: no limit. */
export type QuotaFields = Record<keyof QuotaSpec, string | number>;

export function fieldsOf(quota: Quota): QuotaFields {
  return { ...boundFieldsOf(quota), weight: quota.weight === 1 ? "" : quota.weight };
}

export const BOUND_LABELS: Record<keyof Bounds, string> = {
  gpus: "Maximum GPUs",
  gpu_hours: "Maximum GPU-hours in seven days",
  waiting: "Maximum waiting jobs",
  submissions: "Maximum submissions per minute",
  cpu_jobs: "Maximum running jobs without GPUs",
  cpus: "Maximum processors of jobs without GPUs",
  memory_gib: "Maximum GiB of memory of jobs without GPUs",
  priority: "Maximum priority of a job",
  max_duration: "Maximum run time of a job, in seconds",
  default_duration: "Run time of jobs that state none, in seconds",
};

/** Limits that may be fractions. */
export const FRACTIONAL: ReadonlySet<string> = new Set([
  "gpu_hours",
  "cpus",
  "memory_gib",
  "max_duration",
  "default_duration",
  "weight",
]);

/** Form fields of a group's limits. Groups have no weight. */
type BoundFields = Record<keyof Bounds, string | number>;

export const NO_BOUNDS: BoundFields = {
  gpus: "",
  gpu_hours: "",
  waiting: "",
  submissions: "",
  cpu_jobs: "",
  cpus: "",
  memory_gib: "",
  priority: "",
  max_duration: "",
  default_duration: "",
};

export const NO_QUOTA: QuotaFields = { ...NO_BOUNDS, weight: "" };

export function boundFieldsOf(of: Quota | Group): BoundFields {
  const { gpus, gpu_hours, waiting, submissions, cpu_jobs, cpus, memory_gib, priority } = of;
  const { max_duration, default_duration } = of;
  return {
    gpus: gpus ?? "",
    gpu_hours: gpu_hours ?? "",
    waiting: waiting ?? "",
    submissions: submissions ?? "",
    cpu_jobs: cpu_jobs ?? "",
    cpus: cpus ?? "",
    memory_gib: memory_gib ?? "",
    priority: priority ?? "",
    max_duration: max_duration ?? "",
    default_duration: default_duration ?? "",
  };
}

export function boundsOf(fields: BoundFields): Bounds {
  const bound = (value: string | number) => (value === "" ? null : Number(value));
  return {
    gpus: bound(fields.gpus),
    gpu_hours: bound(fields.gpu_hours),
    waiting: bound(fields.waiting),
    submissions: bound(fields.submissions),
    cpu_jobs: bound(fields.cpu_jobs),
    cpus: bound(fields.cpus),
    memory_gib: bound(fields.memory_gib),
    priority: bound(fields.priority),
    max_duration: bound(fields.max_duration),
    default_duration: bound(fields.default_duration),
  };
}

export function specOf(fields: QuotaFields): QuotaSpec {
  return {
    ...boundsOf(fields),
    weight: fields.weight === "" ? 1 : Number(fields.weight),
  };
}

/** GPUs of any type, as opposed to those of one type. */
const ANY = "any";

/** Format a guarantee: "8, a100=4". */
export function guaranteeText(guarantee: Guarantee): string {
  const types = Object.entries(guarantee).sort(([a], [b]) => a.localeCompare(b));
  return types.map(([type, gpus]) => (type === ANY ? `${gpus}` : `${type}=${gpus}`)).join(", ");
}

/** Return the guarantee in "8, a100=4"; null: the text is invalid. */
export function guaranteeIn(typed: string): Guarantee | null {
  const found: Guarantee = {};
  for (const part of namesIn(typed)) {
    const match = /^(?:([A-Za-z0-9][A-Za-z0-9 ._-]*?)\s*=\s*)?(\d{1,9})$/.exec(part);
    const [type, gpus] = [match?.[1] ?? ANY, Number(match?.[2])];
    if (!match || gpus < 1 || type in found) return null;
    found[type] = gpus;
  }
  return found;
}

/** Return the names in "ada, ben", without duplicates. */
export function namesIn(typed: string): string[] {
  const names = typed.split(",").map((name) => name.trim());
  return [...new Set(names)].filter((name) => name !== "");
}
