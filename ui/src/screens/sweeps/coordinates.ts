import type { Run } from "../../api/types";
import { shownValue } from "../../sweeps/runs";

/** Vertical axis of the chart. A run's position is from 0 (bottom) to 1, and ticks have labels. */
export interface Axis {
  name: string;
  place: (run: Run) => number | null;
  ticks: { at: number; text: string }[];
}

type Value = Run["params"][string];

const LOG_FROM = 20;
const MOST_TICKS = 8;

/** Return the axis of a parameter. Numbers have a scale, logarithmic if their range is large. Other values are
 * listed one by one. */
export function axisOf(name: string, runs: readonly Run[]): Axis {
  const values = runs.map((run) => run.params[name]);
  const given = values.filter((value) => value !== undefined);
  if (given.length > 0 && given.every((value) => typeof value === "number")) {
    return scale(name, given as number[], (run) => (run.params[name] as number | undefined) ?? null);
  }
  const kinds = [...new Map(given.map((value) => [String(value), value])).keys()];
  const at = (index: number) => (kinds.length > 1 ? index / (kinds.length - 1) : 0.5);
  const step = Math.ceil(kinds.length / MOST_TICKS);
  return {
    name,
    place: (run) => placeOf(run.params[name]),
    ticks: kinds.flatMap((text, index) => (index % step === 0 ? [{ at: at(index), text }] : [])),
  };

  function placeOf(value: Value | undefined) {
    return value === undefined ? null : at(kinds.indexOf(String(value)));
  }
}

/** Return the axis of the metric's best value. */
export function metricAxis(name: string, runs: readonly Run[]): Axis {
  const values = runs.flatMap((run) => (run.best === null ? [] : [run.best]));
  return scale(`best ${name}`, values, (run) => run.best);
}

function scale(name: string, values: number[], valueIn: (run: Run) => number | null): Axis {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const log = low > 0 && high / low >= LOG_FROM;
  const bent = (value: number) => (log ? Math.log(value) : value);
  const width = bent(high) - bent(low);
  const at = (value: number) => (width > 0 ? (bent(value) - bent(low)) / width : 0.5);
  const distinct = [...new Set(values)].toSorted((a, b) => a - b);
  const shown =
    distinct.length <= MOST_TICKS
      ? distinct
      : [0, 0.25, 0.5, 0.75, 1].map((share) =>
          log ? Math.exp(bent(low) + share * width) : low + share * width,
        );
  return {
    name,
    place: (run) => {
      const value = valueIn(run);
      return value === null ? null : at(value);
    },
    ticks: shown.map((value) => ({ at: at(value), text: shownValue(Number(value.toPrecision(3))) })),
  };
}

/** Return the rank of each run, from 0 to 1. null means no value. */
export function merits(runs: readonly Run[], goal: "min" | "max"): (number | null)[] {
  const values = runs.flatMap((run) => (run.best === null ? [] : [run.best])).toSorted((a, b) => a - b);
  const most = values.length - 1;
  return runs.map((run) => {
    if (run.best === null) return null;
    // By rank, because one outlier must not make all others look alike.
    const rank = most > 0 ? values.indexOf(run.best) / most : 1;
    return goal === "min" && most > 0 ? 1 - rank : rank;
  });
}
