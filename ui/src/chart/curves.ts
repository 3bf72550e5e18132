import type { Profile } from "../api/types";

/** By what curves are drawn. */
export type Axis = "step" | "time" | "epoch";

/** [step, value, seconds since the epoch] of each time that a metric was logged. */
type Points = readonly (readonly number[])[];

/** More lines than these can't be told apart in one chart. */
export const MOST_CURVES = 6;

/** The metric that says at which step which epoch was reached: it is an axis of the others. */
export const EPOCH = "epoch";

export const X_NAMES: Record<Axis, string> = { step: "Step", time: "Minutes", epoch: "Epoch" };

/** The metrics that are curves. */
export const metricsOf = (profiles: readonly (Profile | undefined)[]): string[] =>
  [...new Set(profiles.flatMap((profile) => Object.keys(profile?.metrics ?? {})))].filter(
    (name) => name !== EPOCH,
  );

/** By what all of them can be drawn. */
export function axesOf(profiles: readonly (Profile | undefined)[]): Axis[] {
  const epochs = profiles.some((profile) => (profile?.metrics[EPOCH]?.length ?? 0) > 0);
  return epochs ? ["step", "time", "epoch"] : ["step", "time"];
}

/** The epoch at a step: between two steps that it was logged at, in proportion. Null where nobody knows. */
export function epochAt(step: number, epochs: Points): number | null {
  const after = epochs.findIndex(([at]) => (at ?? 0) >= step);
  if (after < 0) return null;
  const [at = 0, value = 0] = epochs[after] ?? [];
  if (at === step) return value;
  const [from, before] = epochs[after - 1] ?? [];
  if (from === undefined || before === undefined) return null;
  return before + ((value - before) * (step - from)) / (at - from);
}

/**
 * The curves of one metric on one axis, a column a job. x: steps, epochs, or minutes since each job's first report;
 * `clock`: seconds since the epoch instead of minutes, for an axis that other charts have too.
 */
export function curvesOf(
  profiles: readonly (Profile | undefined)[],
  metric: string,
  axis: Axis,
  clock = false,
): [number[], ...(number | null)[][]] {
  const curves = profiles.map((profile) => {
    const points = profile?.metrics[metric] ?? [];
    const epochs = profile?.metrics[EPOCH] ?? [];
    const first = clock ? 0 : (points[0]?.[2] ?? 0);
    const curve = new Map<number, number | null>();
    for (const [step = 0, value, at = 0] of points) {
      const x =
        axis === "step" ? step : axis === "epoch" ? epochAt(step, epochs) : (at - first) / (clock ? 1 : 60);
      if (x !== null) curve.set(x, value ?? null);
    }
    return curve;
  });
  const xs = [...new Set(curves.flatMap((curve) => [...curve.keys()]))].toSorted((a, b) => a - b);
  return [xs, ...curves.map((curve) => xs.map((x) => curve.get(x) ?? null))];
}

/** The most that a curve is smoothed. */
export const MOST_SMOOTHING = 0.99;

/**
 * The running mean that forgets: of each further value `1 - weight` counts. Its beginning counts for no more than the
 * rest, as an average that starts at 0 would have it.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0;
  let share = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    share = share * weight + (1 - weight);
    return sum / share;
  });
}
