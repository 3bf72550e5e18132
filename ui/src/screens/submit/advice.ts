import type { JobBody } from "../../api/commands";
import type { Advice, AdviceOption, AdviceSpec, Estimate } from "../../api/types";
import { plainNumber, plural } from "../../format/number";
import { duration } from "../../format/time";
import { wholeNumbers } from "../../format/wholeNumbers";
import type { Values } from "../../jobs/values";

/** Advice request as typed, in addition to the job. */
export interface Question {
  /** Deadline: the job's own, within a time span, or by a date. */
  done: "job" | "within" | "by";
  within: string | number;
  /** Seconds per unit of `within`. */
  unit: string;
  by: string;
  metric: string;
  goal: "max" | "min";
  target: string | number;
  batches: string;
  gpus: string;
}

export const NO_QUESTION: Question = {
  done: "job",
  within: "",
  unit: "60",
  by: "",
  metric: "",
  goal: "max",
  target: "",
  batches: "",
  gpus: "",
};

export const USUAL_METRIC = "accuracy";

/** Return the numbers in "32, 64"; null: the text contains something else. */
export function numbersIn(text: string): number[] | null {
  const { numbers, wrong } = wholeNumbers(text);
  return wrong === undefined ? numbers : null;
}

/** Return half the job's batch size, itself and its double. Without a batch size there are none: the service then
 * compares those that were tried. */
export function batchesAround(batch: number | null | undefined): number[] {
  return batch ? [...new Set([Math.max(1, Math.floor(batch / 2)), batch, 2 * batch])] : [];
}

/** Return powers of two up to `most`, and `most` itself. `most` is the maximum number of GPUs of a type. The service
 * compares these numbers by default. */
export function usualGpus(most: number): number[] {
  const powers = Array.from({ length: 13 }, (_, power) => 2 ** power).filter((count) => count < most);
  return most > 0 ? [...powers, most] : [];
}

/** Return error messages of fields that can't be sent. */
export function faultsIn(question: Question): Partial<Record<keyof Question, string>> {
  const faults: Partial<Record<keyof Question, string>> = {};
  for (const name of ["batches", "gpus"] as const)
    if (numbersIn(question[name]) === null) faults[name] = "Whole numbers, separated by commas";
  if (question.done === "within" && question.within === "") faults.within = "Enter a duration";
  if (question.done === "by" && Number.isNaN(Date.parse(question.by))) faults.by = "Enter a time";
  return faults;
}

/** Return the request body. */
export function specOf(question: Question, job: JobBody): AdviceSpec {
  const batches = numbersIn(question.batches) ?? [];
  const { name, ...unnamed } = job;
  return {
    job: name ? job : unnamed, // the name may follow later
    ...(question.done === "within" && {
      max_response_time: Number(question.within) * Number(question.unit),
    }),
    ...(question.done === "by" && { deadline: new Date(question.by).toISOString() }),
    metric: { name: question.metric.trim() || USUAL_METRIC, goal: question.goal },
    ...(question.target !== "" && { target: Number(question.target) }),
    batch_sizes: batches.length > 0 ? batches : batchesAround(job.batch_size),
    gpus: numbersIn(question.gpus) ?? [],
  };
}

/** Job keys that don't affect the answer. The answer chooses some, the others are for people. */
const BESIDE = [
  "name", "labels", "user", "required_gpus", "batch_size", "gpu_type", "elastic", "min_gpus", "max_gpus", "resize",
] as const; // biome-ignore format: a list

/** Return the cache key of a question. Questions with the same text have the same answer. */
export function textOf(question: Question, job: JobBody): string {
  const about: Record<string, unknown> = { ...job };
  for (const key of BESIDE) delete about[key];
  return JSON.stringify([question, about]);
}

/** Whether the request has an objective. */
export const hasObjective = (spec: AdviceSpec) =>
  spec.max_response_time != null ||
  spec.deadline != null ||
  spec.target != null ||
  (spec.job as JobBody).deadline != null;

/** Return why a configuration misses the objective; empty: it meets it. */
export function missed(option: AdviceOption, spec: AdviceSpec): string {
  if (option.meets) return "";
  const name = spec.metric?.name ?? USUAL_METRIC;
  const found: string[] = [];
  const { target } = spec;
  if (target != null && option.metric === null) found.push(`${name} unknown`);
  else if (target != null && option.metric !== null) {
    const least = spec.metric?.goal !== "min";
    const good = least ? option.metric.value >= target : option.metric.value <= target;
    if (!good) found.push(`${name} too ${least ? "low" : "high"}`);
  }
  const longest = spec.max_response_time;
  if (found.length === 0 || (longest != null && option.response_time.high > longest)) found.push("too late");
  return found.join(", ");
}

const batchOf = ({ batch_size }: AdviceOption) =>
  batch_size === null ? "" : `, batch ${plainNumber(batch_size)}`;

/** Format a configuration: "2 GPUs, batch 64". */
export const sizeOf = (option: AdviceOption) => `${plural(option.required_gpus, "GPU")}${batchOf(option)}`;

/** Format a configuration with its type: "2 GPUs of A100, batch 64". */
export const nameOf = (option: AdviceOption) =>
  `${plural(option.required_gpus, "GPU")} of ${option.gpu_type}${batchOf(option)}`;

/** Format a duration that may be short. */
export const span = (seconds: number) =>
  seconds < 10 ? `${Number(Math.max(0, seconds).toFixed(1))} s` : duration(seconds);

export const bounds = ({ low, high }: Estimate, show: (value: number) => string) =>
  `${show(low)} to ${show(high)}`;

/** Return the models behind the advice, and their quality. */
export function basisOf(advice: Advice, metric: string): string {
  const by = [["time", advice.time_models[0]] as const, [metric, advice.metric_models[0]] as const]
    .filter(([, model]) => model !== undefined)
    .map(
      ([of, model]) => `${of} by ${model?.model} (R² ${model?.r2.toFixed(2)} on jobs not used for the fit)`,
    );
  return `From ${plural(advice.samples, "finished job")} of its family; ${by.join(", ")}. 90% of the jobs were within the intervals.`;
}

/** Return form values with a configuration. The job becomes rigid: advice assumes a fixed size. */
export function taken(option: AdviceOption): Partial<Values> {
  return {
    required_gpus: option.required_gpus,
    gpu_type: option.gpu_type,
    ...(option.batch_size !== null && { batch_size: option.batch_size }),
    elastic: false,
    min_gpus: "",
    max_gpus: "",
    resize: "",
  };
}

export function isTaken(option: AdviceOption, job: JobBody): boolean {
  return (
    !job.elastic &&
    job.required_gpus === option.required_gpus &&
    job.gpu_type === option.gpu_type &&
    (option.batch_size === null || job.batch_size === option.batch_size)
  );
}

/** Field of the panel for each key of the request. */
const PLACES: Record<string, keyof Question> = {
  max_response_time: "within",
  deadline: "by",
  metric: "metric",
  target: "target",
  batch_sizes: "batches",
  gpus: "gpus",
};

export interface Refusal {
  /** Messages for the panel's own fields. */
  own: Partial<Record<keyof Question, string>>;
  /** Messages for the keys of the job. */
  job: Record<string, string>;
  /** Messages without a field. */
  rest: string;
  /** Too few jobs of the family have ended. */
  noHistory: boolean;
}

/** Error as the service reports it. Without a reply, it has no `fields`. */
interface Told {
  message: string;
  code?: string;
  fields?: Readonly<Record<string, string>>;
}

/** Assign each message of a refusal to its place. */
export function placesOf(error: Told): Refusal {
  const found: Refusal = { own: {}, job: {}, rest: "", noHistory: false };
  if (error.code === "no_history") return { ...found, rest: error.message, noHistory: true };
  const rest: string[] = [];
  for (const [where, told] of Object.entries(error.fields ?? {})) {
    const message = told.startsWith(`${where}: `) ? told.slice(where.length + 2) : told;
    const [first = "", key] = where.split(".");
    const place = PLACES[first];
    if (place) found.own[place] ??= message;
    else if (first === "job" && key) found.job[key] ??= message;
    else rest.push(message);
  }
  const placed = Object.keys(found.own).length + Object.keys(found.job).length > 0;
  return { ...found, rest: rest.join("; ") || (placed ? "" : error.message) };
}
