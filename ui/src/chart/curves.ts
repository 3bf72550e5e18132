import type { Profile } from "../api/types";

/** x axis of the curves. */
export type Axis = "step" | "time" | "epoch";

/** Logged values of a metric: [step, value, seconds since the epoch]. */
type Points = readonly (readonly number[])[];

/** Maximum curves in one chart. More can't be told apart. */
export const MOST_CURVES = 6;

/** Metric that maps steps to epochs. It serves as an axis for the others. */
const EPOCH = "epoch";

export const X_NAMES: Record<Axis, string> = { step: "Step", time: "Minutes", epoch: "Epoch" };

/** Return the names of the metrics to draw as curves. */
export const metricsOf = (profiles: readonly (Profile | undefined)[]): string[] =>
  [...new Set(profiles.flatMap((profile) => Object.keys(profile?.metrics ?? {})))].filter(
    (name) => name !== EPOCH,
  );

/** Return the x axes available for all curves. */
export function axesOf(profiles: readonly (Profile | undefined)[]): Axis[] {
  const epochs = profiles.some((profile) => (profile?.metrics[EPOCH]?.length ?? 0) > 0);
  return epochs ? ["step", "time", "epoch"] : ["step", "time"];
}

/** Return the epoch at a step, interpolated between logged steps. null means unknown. */
export function epochAt(step: number, epochs: Points): number | null {
  const after = epochs.findIndex(([at]) => (at ?? 0) >= step);
  if (after < 0) return null;
  const [at = 0, value = 0] = epochs[after] ?? [];
  if (at === step) return value;
  const [from, before] = epochs[after - 1] ?? [];
  if (from === undefined || before === undefined) return null;
  return before + ((value - before) * (step - from)) / (at - from);
}

/** Curves of one metric on one axis, one column per job. x: steps, epochs, or minutes since each job's first report.
 * With `clock`, x is seconds since the epoch instead of minutes, for an axis shared with other charts. */
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

/** Maximum smoothing of a curve. */
export const MOST_SMOOTHING = 0.99;

/** Exponential moving average: each further value counts `1 - weight`. The bias of an average that starts at 0 is
 * corrected, so the first values don't count less. */
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
