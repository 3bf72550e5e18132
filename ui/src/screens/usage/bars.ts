import type { Capacity, Usage } from "../../api/types";
import type { Bin } from "../../chart/bars";
import type { ChartData, Series } from "../../chart/Chart";
import { utcDayOf } from "../../format/time";

const DAY_MS = 86_400_000;
/** More days than these are drawn by the week. */
const MOST_DAYS = 31;
const WEEK = 7;
/** So many have a part of a bar of their own; all others share one. */
const MOST_PARTS = 8;

/** The parts of a span of days that have a bar each. */
export interface Bins {
  bins: Bin[];
  /** The bar of a day ("2026-11-23"). */
  at: (day: string) => number;
  each: "day" | "week";
}

/** A bar a day, or a week where there are many. `since`: the beginning of the first day, `today`: of the last (epoch ms,
 * UTC). The last week may be shorter. */
export function binsOf(since: number, today: number): Bins {
  const days = Math.round((today - since) / DAY_MS) + 1;
  const width = days > MOST_DAYS ? WEEK : 1;
  const bins = Array.from({ length: Math.ceil(days / width) }, (_, index) => {
    const first = since + index * width * DAY_MS;
    const last = Math.min(first + (width - 1) * DAY_MS, today);
    const tick = utcDayOf(new Date(first));
    return { tick, text: first === last ? tick : `${tick} – ${utcDayOf(new Date(last))}` };
  });
  return {
    bins,
    at: (day) => Math.floor((Date.parse(day) - since) / DAY_MS / width),
    each: width === 1 ? "day" : "week",
  };
}

export interface Parts {
  series: Series[];
  data: ChartData;
}

/** GPU-hours of each bar by user or label, the largest first; those that used little share the last part. */
export function partsOf(rows: readonly Usage[], part: "user" | "label", { bins, at }: Bins): Parts {
  const columns = new Map<string, (number | null)[]>();
  const totals = new Map<string, number>();
  for (const row of rows) {
    const bin = at(row.day);
    if (bin < 0 || bin >= bins.length || row.gpu_hours <= 0) continue;
    const name = row[part];
    const column = columns.get(name) ?? bins.map(() => null);
    column[bin] = (column[bin] ?? 0) + row.gpu_hours;
    columns.set(name, column);
    totals.set(name, (totals.get(name) ?? 0) + row.gpu_hours);
  }
  const byUse = [...columns.keys()].sort((a, b) => (totals.get(b) ?? 0) - (totals.get(a) ?? 0));
  const own = byUse.length > MOST_PARTS ? byUse.slice(0, MOST_PARTS - 1) : byUse;
  const others = byUse.slice(own.length);
  const series: Series[] = own.map((name) => ({ name: name || `no ${part}` }));
  const drawn = own.map((name) => columns.get(name) ?? []);
  if (others.length > 0) {
    series.push({ name: `${others.length} others`, muted: true });
    drawn.push(bins.map((_, bin) => sum(others.map((name) => columns.get(name)?.[bin] ?? null))));
  }
  return { series, data: [xOf(bins), ...drawn] };
}

export const CAPACITY: Series[] = [{ name: "held by jobs" }, { name: "idle", muted: true }];

/** GPU-hours that jobs held, and those that were left, of each bar. */
export function capacityOf(days: Capacity["days"], { bins, at }: Bins): ChartData {
  const held: (number | null)[] = bins.map(() => null);
  const idle: (number | null)[] = bins.map(() => null);
  for (const day of days) {
    const bin = at(day.day);
    if (bin < 0 || bin >= bins.length) continue;
    held[bin] = (held[bin] ?? 0) + day.held_gpu_hours;
    idle[bin] = (idle[bin] ?? 0) + idleOf(day);
  }
  return [xOf(bins), held, idle];
}

export interface Share {
  held: number;
  idle: number;
  /** Of what there was; null: nothing is known of it. */
  share: number | null;
}

/** All days together. */
export function shareOf(days: Capacity["days"]): Share {
  const held = days.reduce((total, day) => total + day.held_gpu_hours, 0);
  const idle = days.reduce((total, day) => total + idleOf(day), 0);
  return { held, idle, share: held + idle > 0 ? held / (held + idle) : null };
}

/** Jobs may also hold GPUs that turned out unhealthy, which are no capacity. */
const idleOf = (day: Capacity["days"][number]) => Math.max(0, day.gpu_hours - day.held_gpu_hours);

/** What all rows cost together; null where that of one is not known. */
export function costOf(rows: readonly Usage[]): number | null {
  return sum(
    rows.map((row) => row.cost),
    true,
  );
}

/** What all rows drew together, as far as it was measured; null where it was for none. */
export const energyOf = (rows: readonly Usage[]) => sum(rows.map((row) => row.energy_kwh));

const xOf = (bins: readonly Bin[]) => bins.map((_, index) => index);

/** The sum; null where there is nothing, or with `strict` where anything is missing. */
function sum(values: readonly (number | null)[], strict = false): number | null {
  const found = values.filter((value) => value !== null);
  if (found.length === 0 || (strict && found.length < values.length)) return null;
  return found.reduce((total, value) => total + value, 0);
}
