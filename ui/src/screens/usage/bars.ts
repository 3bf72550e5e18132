import type { Capacity, Usage } from "../../api/types";
import type { Bin } from "../../chart/bars";
import type { ChartData, Series } from "../../chart/Chart";
import { utcDayOf } from "../../format/time";

const DAY_MS = 86_400_000;
/** Maximum number of days drawn one by one. Longer spans are drawn by the week. */
const MOST_DAYS = 31;
const WEEK = 7;
/** Maximum parts of a bar. The smallest parts share the last one. */
const MOST_PARTS = 8;

/** Days or weeks with one bar each. */
export interface Bins {
  bins: Bin[];
  /** Return the index of the bar of a day ("2026-11-23"). */
  at: (day: string) => number;
  each: "day" | "week";
}

/** Return one bar per day, or per week for long spans. `since` is the beginning of the first day, `today` of the
 * last (epoch ms, UTC). The last week may be shorter. */
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

interface Parts {
  series: Series[];
  data: ChartData;
}

/** Return the GPU-hours of each bar by user or label, largest first. Those with little usage share the last part. */
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

/** Return the held and idle GPU-hours of each bar. */
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

interface Share {
  held: number;
  idle: number;
  /** Held share of the capacity; null: unknown. */
  share: number | null;
}

/** Return the held and idle GPU-hours of all days. */
export function shareOf(days: Capacity["days"]): Share {
  const held = days.reduce((total, day) => total + day.held_gpu_hours, 0);
  const idle = days.reduce((total, day) => total + idleOf(day), 0);
  return { held, idle, share: held + idle > 0 ? held / (held + idle) : null };
}

/** Return idle GPU-hours, at least 0. Jobs may also hold GPUs that became unhealthy, which are no capacity. */
const idleOf = (day: Capacity["days"][number]) => Math.max(0, day.gpu_hours - day.held_gpu_hours);

/** Return the total cost; null if any cost is unknown. */
export function costOf(rows: readonly Usage[]): number | null {
  return sum(
    rows.map((row) => row.cost),
    true,
  );
}

/** Return the total measured energy; null if none was measured. */
export const energyOf = (rows: readonly Usage[]) => sum(rows.map((row) => row.energy_kwh));

const xOf = (bins: readonly Bin[]) => bins.map((_, index) => index);

/** Return the sum. It is null without values, or, if `strict`, with any value missing. */
function sum(values: readonly (number | null)[], strict = false): number | null {
  const found = values.filter((value) => value !== null);
  if (found.length === 0 || (strict && found.length < values.length)) return null;
  return found.reduce((total, value) => total + value, 0);
}
