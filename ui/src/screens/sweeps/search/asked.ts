import type { Job, SearchSpec } from "../../../api/types";
import { wholeNumbers } from "../../../format/wholeNumbers";
import { hiddenIn, specOf } from "../../../jobs/values";

/** Search form as typed. */
export interface Asked {
  name: string;
  /** Job keys as JSON. */
  job: string;
  gpus: string;
  batchSizes: string;
  gpuTypes: string;
  goal: NonNullable<SearchSpec["goal"]>;
  trials: string | number;
}

export const NOTHING: Asked = {
  name: "",
  job: "",
  gpus: "1, 2, 4",
  batchSizes: "",
  gpuTypes: "",
  goal: "both",
  trials: "",
};

/** Job keys that a trial lacks or gets from the search. These are name, size, priority and time limits. */
const OWN = [
  "name",
  "required_gpus",
  "elastic",
  "min_gpus",
  "max_gpus",
  "resize",
  "priority",
  "max_duration",
  "max_restarts",
  "deadline",
  "user",
] as const;

/** Return the job of a search, made from an earlier job. */
export function jobText(job: Job): string {
  const own: readonly string[] = OWN;
  const kept = Object.entries(specOf(job)).filter(([key, value]) => !own.includes(key) && !isEmpty(value));
  return JSON.stringify(Object.fromEntries(kept), null, 2);
}

const isEmpty = (value: unknown) =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0;

/** Return the request body. Throw an Error with a sentence if the form is invalid. */
export function toSearch(asked: Asked): SearchSpec {
  const job = parsedJob(asked.job);
  const hidden = hiddenIn(job.env as Record<string, unknown> | undefined);
  if (hidden.length > 0)
    throw new Error(`The values of ${hidden.join(", ")} are hidden: enter them in "env".`);
  return {
    name: asked.name.trim(),
    job,
    gpus: numbersIn(asked.gpus, "Numbers of GPUs"),
    batch_sizes: numbersIn(asked.batchSizes, "Batch sizes"),
    gpu_types: wordsIn(asked.gpuTypes),
    goal: asked.goal,
    ...(asked.trials !== "" && { trials: Number(asked.trials) }),
  };
}

function parsedJob(text: string): Record<string, unknown> {
  let job: unknown;
  try {
    job = JSON.parse(text);
  } catch (error) {
    throw new Error(`The job is not valid JSON: ${(error as Error).message}`);
  }
  if (typeof job !== "object" || job === null || Array.isArray(job))
    throw new Error("A job must be a JSON object, in braces.");
  return job as Record<string, unknown>;
}

/** Split text at commas only, because names of GPU types contain spaces. */
const wordsIn = (text: string) =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");

function numbersIn(text: string, what: string): number[] {
  const { numbers, wrong } = wholeNumbers(text);
  if (wrong !== undefined) throw new Error(`${what}: ${wrong} is not a whole number.`);
  return numbers;
}
