import type { ComparedPolicy, Totals } from "../../api/types";

/** Figures that policies are compared by. Lower is better. */
export const FIGURES = [
  "mean_completion",
  "median_wait",
  "p90_wait",
  "gpu_hours",
  "host_hours",
  "changes",
] as const;
export type Figure = (typeof FIGURES)[number];

export const keyOf = ({ algorithm, metric }: { algorithm: string; metric: string }) =>
  `${algorithm} ${metric}`;

/** Format a policy: "goodput · speed". The default metric is omitted. */
export const nameOf = ({ algorithm, metric }: { algorithm: string; metric: string }) =>
  metric === "default" ? algorithm : `${algorithm} · ${metric}`;

/** Return the minimum of each figure. A figure that is the same for all has none, because no policy is better. */
export function bestOf(policies: readonly Pick<ComparedPolicy, "totals">[]): Partial<Record<Figure, number>> {
  const best: Partial<Record<Figure, number>> = {};
  for (const figure of FIGURES) {
    const values = policies.flatMap(({ totals }) => totals?.[figure] ?? []);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    if (values.length > 1 && most - least > SAME * most) best[figure] = least;
  }
  return best;
}

/** Group policies with equal figures. Policies without figures are grouped by the reason. The order stays. */
export function groupsOf<P extends { algorithm: string; metric: string }>(
  policies: readonly P[],
  found: ReadonlyMap<string, Pick<ComparedPolicy, "totals" | "problem">>,
): P[][] {
  const groups = new Map<string, P[]>();
  for (const policy of policies) {
    const each = found.get(keyOf(policy));
    const why = whyNone(each?.totals ?? null, each?.problem ?? "");
    const alike = why || FIGURES.map((figure) => each?.totals?.[figure]?.toPrecision(3)).join(" ");
    groups.set(alike, [...(groups.get(alike) ?? []), policy]);
  }
  return [...groups.values()];
}

/** Whether a value is as good as the best one. Differences too small to be shown don't count. */
export const isBest = (value: number | null | undefined, best: number | undefined): boolean =>
  value != null && best !== undefined && value <= best * (1 + SAME);

/** Return why there are no figures. */
export function whyNone(totals: Totals | null, problem: string): string {
  if (problem) return problem;
  if (totals?.cut === "time") return "It takes too long to compute";
  if (totals?.cut === "events") return "Too many events until then";
  return "";
}

/** Return the number of GPUs of an allocation. */
export function gpusOf(allocation: Record<string, number>): number {
  return Object.values(allocation).reduce((sum, gpus) => sum + gpus, 0);
}

const SAME = 0.005;

/** Compare `then` with `now`. Lower is better. */
export function compared(
  now: number | null,
  then: number | null,
): { text: string; better: boolean | undefined } {
  if (now === null || then === null) return { text: "–", better: undefined };
  const change = now === 0 ? (then === 0 ? 0 : Number.POSITIVE_INFINITY) : (then - now) / now;
  if (Math.abs(change) < SAME) return { text: "the same", better: undefined };
  if (!Number.isFinite(change)) return { text: "more", better: false };
  const percent = Math.abs(change) * 100;
  return {
    text: `${change < 0 ? "−" : "+"}${percent < 10 ? percent.toFixed(1) : Math.round(percent)}%`,
    better: change < 0,
  };
}
