import type { JobState, Run, Sweep, SweepState } from "../api/types";
import { plural } from "../format/number";

/** Job state with the same icon and colour. */
export const LOOKS_LIKE: Record<SweepState | Run["state"], JobState> = {
  completed: "succeeded",
  pending: "queued",
  deleted: "cancelled",
  pruned: "cancelled",
  queued: "queued",
  pulling: "pulling",
  starting: "starting",
  running: "running",
  resizing: "resizing",
  stopping: "stopping",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  timeout: "timeout",
};

/** Sort runs, best first. Runs without a logged value come last, in their order. */
export function bestFirst(runs: Run[], goal: "min" | "max"): Run[] {
  const sign = goal === "max" ? -1 : 1;
  return runs.toSorted((a, b) => {
    if (a.best === null || b.best === null) {
      return Number(a.best === null) - Number(b.best === null) || a.number - b.number;
    }
    return sign * (a.best - b.best) || a.number - b.number;
  });
}

/** Format a logged value with six significant digits. Small ones have an exponent. */
export const shownValue = (value: number | null) =>
  value === null ? "" : String(Number(value.toPrecision(6)));

/** Format a measurement with four significant digits. Measured values never repeat exactly. */
export const fourDigits = (value: number | null) =>
  value === null ? "" : String(Number(value.toPrecision(4)));

/** Format counts of runs: "12 runs: 3 active, 8 succeeded, 1 failed". */
export function shownCounts({ runs, counts }: Pick<Sweep, "runs" | "counts">): string {
  const told = Object.entries(counts).filter(([, number]) => number > 0);
  return `${plural(runs, "run")}: ${told.map(([name, number]) => `${number} ${name}`).join(", ")}`;
}

/**
 * Return the kind of a sweep. Examples: "sweep", "search", "experiment: factorial, 3 replications",
 * "search by tpe, 30 trials, pruned by asha".
 */
export function shownKind(
  sweep: Pick<Sweep, "design" | "replications" | "search" | "prune" | "trials">,
): string {
  const { design, replications, search, prune, trials } = sweep;
  if (design === "search") return "search";
  if (design !== null) return `experiment: ${design}, ${plural(replications, "replication")}`;
  const told = [search === null ? "sweep" : `search by ${search}, ${plural(trials, "trial")}`];
  if (prune !== null) told.push(`pruned by ${prune}`);
  return told.join(", ");
}
