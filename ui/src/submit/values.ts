import type { JobBody } from "../api/commands";
import type { Job } from "../api/types";

/** The form as it is typed: texts, so that what is empty can be told from zero. */
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
  priority: string | number;
  weight: string | number;
  deadline: string;
  max_duration: string | number;
  max_restarts: string | number;
  shm_size: string;
  env: string;
  labels: string;
  user: string;
}

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
  priority: "",
  weight: "",
  deadline: "",
  max_duration: "",
  max_restarts: "",
  shm_size: "",
  env: "",
  labels: "",
  user: "",
};

const OPTIONAL_NUMBERS = [
  "min_gpus",
  "max_gpus",
  "priority",
  "weight",
  "max_duration",
  "max_restarts",
] as const;
const MASK = "********";

/** NAME=value lines as an object; throws an Error that names the first line that is none. */
export function parsePairs(text: string): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`Line ${index + 1} is not NAME=value.`);
    pairs[line.slice(0, at).trim()] = line.slice(at + 1).replace(/\r$/, "");
  }
  return pairs;
}

/** What is sent: the five keys always, so that the service can say what is wrong with them; others if they are set. */
export function toBody(values: Values): JobBody {
  const body: JobBody = {
    name: values.name,
    type: values.type,
    container_image: values.container_image,
    command: values.command,
    required_gpus: values.required_gpus === "" ? undefined : Number(values.required_gpus),
  };
  for (const key of OPTIONAL_NUMBERS) {
    if (values[key] !== "") body[key] = Number(values[key]);
  }
  if (values.elastic) body.elastic = true;
  if (values.launcher) body.launcher = values.launcher as JobBody["launcher"];
  if (values.deadline) body.deadline = new Date(values.deadline).toISOString();
  if (values.shm_size) body.shm_size = values.shm_size;
  if (values.user) body.user = values.user;
  if (values.env.trim()) body.env = parsePairs(values.env);
  if (values.labels.trim()) body.labels = parsePairs(values.labels);
  return body;
}

/** A job as the form that would submit it again, and the names of the variables whose values are hidden. */
export function fromJob(job: Job): { values: Values; hidden: string[] } {
  const lines = (pairs: Record<string, string>) =>
    Object.entries(pairs)
      .map(([name, value]) => `${name}=${value === MASK ? "" : value}`)
      .join("\n");
  const values: Values = {
    ...EMPTY,
    name: job.name,
    type: job.type,
    container_image: job.container_image,
    command: job.command,
    required_gpus: job.required_gpus,
    launcher: job.launcher,
    elastic: job.elastic,
    min_gpus: job.elastic ? job.min_gpus : "",
    max_gpus: job.elastic ? job.max_gpus : "",
    priority: job.priority,
    weight: job.weight,
    max_duration: job.max_duration ?? "",
    max_restarts: job.max_restarts,
    shm_size: String(job.shm_size),
    env: lines(job.env),
    labels: lines(job.labels),
    user: job.user,
  };
  return { values, hidden: Object.keys(job.env).filter((name) => job.env[name] === MASK) };
}

/** The same submission for a terminal. */
export function asCurl(body: JobBody, origin: string): string {
  const json = JSON.stringify(body, null, 2).replaceAll("'", String.raw`'\''`);
  return `curl ${origin}/api/v1/jobs -H 'Content-Type: application/json' -d '${json}'`;
}
