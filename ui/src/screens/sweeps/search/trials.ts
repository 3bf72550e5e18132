import type { Run, Search, SearchTrial } from "../../../api/types";
import { plural } from "../../../format/number";

type Configuration = Pick<SearchTrial, "gpu_type" | "required_gpus" | "batch_size">;

/** Trial that has ended, waits or runs. */
export interface TrialRow extends Configuration {
  number: number;
  job: string | null;
  state: Run["state"];
  run_time: number | null;
  cost: number | null;
  gain: number | null;
  /** No other trial beats it in both time and cost. */
  curved: boolean;
  knee: boolean;
  best: boolean;
}

/** Return all trials, oldest first. `runs` are those of the same sweep, including unfinished ones. */
export function trialsOf(search: Search, runs: readonly Run[]): TrialRow[] {
  const states = new Map(runs.map((run) => [run.number, run.state]));
  const ended: TrialRow[] = search.tried.map((trial) => ({
    ...trial,
    state: states.get(trial.number) ?? (trial.run_time === null ? "failed" : "succeeded"),
    curved: search.curve.some((each) => isSame(each, trial)),
    knee: search.knee !== null && isSame(search.knee, trial),
    best: search.best !== null && isSame(search.best, trial),
  }));
  const known = new Set(ended.map((trial) => trial.number));
  const others = runs.filter((run) => !known.has(run.number)).map(unfinished);
  return [...ended, ...others];
}

function unfinished(run: Run): TrialRow {
  const { gpu_type, required_gpus, batch_size } = run.params;
  return {
    number: run.number,
    job: run.job,
    state: run.state,
    gpu_type: gpu_type === undefined ? null : String(gpu_type),
    required_gpus: Number(required_gpus),
    batch_size: batch_size === undefined ? null : Number(batch_size),
    run_time: null,
    cost: null,
    gain: null,
    curved: false,
    knee: false,
    best: false,
  };
}

const isSame = (one: Configuration, other: Configuration) =>
  one.gpu_type === other.gpu_type &&
  one.required_gpus === other.required_gpus &&
  one.batch_size === other.batch_size;

/** Format a configuration: "2 GPUs of A100, batch 64". */
export function shownConfiguration({ gpu_type, required_gpus, batch_size }: Configuration): string {
  const gpus = plural(required_gpus, "GPU") + (gpu_type === null ? "" : ` of ${gpu_type}`);
  return batch_size === null ? gpus : `${gpus}, batch ${batch_size}`;
}

/** Return the marks of a trial: "best, knee". The chart and the table show them. */
export const shownMarks = ({ best, knee, curved }: Pick<TrialRow, "best" | "knee" | "curved">) =>
  [best && "best", knee && "knee", curved && !best && !knee && "on the curve"].filter(Boolean).join(", ");

/** Return the best trial's job, from which others start. null means that it was deleted, or nothing is found yet. */
export function foundJob({ found, tried }: Search): string | null {
  return (found && tried.find((trial) => trial.run_time !== null && isSame(trial, found))?.job) ?? null;
}

const LEAST_SHARE = 0.001;

/** Format a share as a percentage: "8.3%"; empty if unknown. */
export function shownShare(share: number | null): string {
  if (share === null) return "";
  return share < LEAST_SHARE ? "< 0.1%" : `${Number((100 * share).toPrecision(2))}%`;
}
