import type { Job } from "../api/types";

/** Meanings of exit codes that are not the program's own. */
const CODES: Record<number, string> = {
  126: "the command can't be executed",
  127: "command not found",
  130: "interrupted",
  134: "aborted",
  137: "killed, often for memory",
  139: "segmentation fault",
  143: "terminated",
};

export function exitMeaning(code: number): string {
  return code in CODES ? `exit ${code}: ${CODES[code]}` : `exit ${code}`;
}

/** Format the places of GPUs: "daphne GPU 3, 4; echo GPU 0". */
export function placesOf(gpus: NonNullable<Job["failure"]>["gpus"]): string {
  const hosts = new Map<string, number[]>();
  for (const { host, index } of gpus) hosts.set(host, [...(hosts.get(host) ?? []), index]);
  return [...hosts]
    .map(([host, indexes]) => `${host} GPU ${indexes.toSorted((a, b) => a - b).join(", ")}`)
    .join("; ");
}

/** States whose message says no more than their name. */
const PLAIN = ["running", "succeeded", "cancelled"];

interface Failing extends Pick<Job, "state" | "message" | "pull_percent"> {
  failure: Pick<NonNullable<Job["failure"]>, "exit_code" | "line"> | null;
}

/** Return why a job is in its state, in one line. It is empty without a reason. */
export function whyOf(job: Failing): string {
  if (PLAIN.includes(job.state)) return "";
  const code = job.failure?.exit_code;
  const parts = [
    job.pull_percent !== null && `${Math.round(job.pull_percent)}% fetched`,
    job.failure?.line ? code && exitMeaning(code) : job.message,
    job.failure?.line,
  ];
  return parts.filter(Boolean).join(" · ");
}
