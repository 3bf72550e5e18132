import type { Telemetry } from "../api/types";
import { columnsWithGaps } from "../chart/gaps";

/** Measured GPU metrics. `unit` divides the service's values, `format` formats the drawn ones. */
export const METRICS = {
  utilization: { title: "Utilisation", unit: 1, format: (value: number) => `${Math.round(value)}%` },
  memory_bytes: {
    title: "Memory",
    unit: 2 ** 30,
    format: (value: number) => `${Number(value.toFixed(1))} GiB`,
  },
  power_w: { title: "Power", unit: 1, format: (value: number) => `${Math.round(value)} W` },
  temperature: { title: "Temperature", unit: 1, format: (value: number) => `${Math.round(value)} °C` },
} as const;

export type Metric = keyof typeof METRICS;

/** Maximum lines in a chart. More can't be told apart, so mean, lowest and highest replace them. */
export const MOST_LINES = 8;
const SECONDS_A_POINT = 5;

export interface Lines {
  names: string[];
  /** x in epoch seconds, then the values of each line. */
  data: [number[], ...(number | null)[][]];
}

/** Measurements of one thing: [epoch seconds, values...]. */
interface Measured {
  name: string;
  points: readonly (readonly (number | null)[])[];
}

/** Return one metric of several GPUs on one time axis. Empty if nothing was measured. */
export function linesOf(telemetry: Pick<Telemetry, "gpus" | "metrics" | "step_s">, metric: Metric): Lines {
  const several = new Set(telemetry.gpus.map((gpu) => gpu.host)).size > 1;
  const named = telemetry.gpus.map(({ index, host, points }) => ({
    name: `GPU ${index}${several ? ` of ${host}` : ""}`,
    points,
  }));
  const column = telemetry.metrics.indexOf(metric) + 1;
  return overlaid(named, column, METRICS[metric].unit, telemetry.step_s);
}

/** Return one column of several measurements on one time axis. Hosts report at different moments, so points are
 * averaged over equal steps. */
export function overlaid(measured: readonly Measured[], column: number, unit: number, stepS: number): Lines {
  const step = Math.max(SECONDS_A_POINT, stepS);
  const sums = new Map<number, { sum: number[]; count: number[] }>();
  for (const [index, { points }] of measured.entries()) {
    for (const point of points) {
      const value = point[column];
      if (point[0] == null || value == null) continue;
      const at = Math.floor(point[0] / step) * step;
      let cell = sums.get(at);
      if (!cell) {
        cell = { sum: new Array(measured.length).fill(0), count: new Array(measured.length).fill(0) };
        sums.set(at, cell);
      }
      cell.sum[index] = (cell.sum[index] ?? 0) + value / unit;
      cell.count[index] = (cell.count[index] ?? 0) + 1;
    }
  }
  const rows = [...sums.entries()]
    .toSorted(([a], [b]) => a - b)
    .map(([at, { sum, count }]) => [
      at,
      ...sum.map((each, index) => (count[index] ? each / count[index] : null)),
    ]);
  const longest = 2.5 * step;
  if (measured.length <= MOST_LINES) {
    return { names: measured.map(({ name }) => name), data: columnsWithGaps(rows, longest, measured.length) };
  }
  const together = rows.map(([at, ...values]) => {
    const known = values.filter((value) => value != null);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    return [at as number, mean, Math.min(...known), Math.max(...known)];
  });
  return { names: ["mean", "lowest", "highest"], data: columnsWithGaps(together, longest, 3) };
}

/** Return the means of one GPU's metric in each time bin. The `bins` bins are equal parts of the last `seconds`
 * before `until` (epoch s). Bins without measurements are null. */
export function binned(
  telemetry: Pick<Telemetry, "gpus" | "metrics">,
  gpu: number,
  metric: Metric,
  until: number,
  seconds: number,
  bins: number,
): (number | null)[] {
  const points = telemetry.gpus.find((each) => each.index === gpu)?.points ?? [];
  return binnedPoints(points, telemetry.metrics.indexOf(metric) + 1, until, seconds, bins);
}

/** Return the means of one column of points, as `binned` does. */
export function binnedPoints(
  points: Measured["points"],
  column: number,
  until: number,
  seconds: number,
  bins: number,
): (number | null)[] {
  const sums = Array.from({ length: bins }, () => ({ sum: 0, count: 0 }));
  for (const point of points) {
    const [at, value] = [point[0], point[column]];
    if (at == null || value == null) continue;
    const bin = sums[Math.floor(((at - until + seconds) / seconds) * bins)];
    if (!bin) continue;
    bin.sum += value;
    bin.count++;
  }
  return sums.map(({ sum, count }) => (count > 0 ? sum / count : null));
}
