import type { Telemetry } from "../api/types";
import { columnsWithGaps } from "../chart/gaps";

/** What is measured; `unit` in what the service tells, `format` of what is drawn. */
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

/** More lines than these can't be told apart: then the mean stands for them, with the lowest and the highest. */
export const MOST_LINES = 8;
const SECONDS_A_POINT = 5;

export interface Lines {
  names: string[];
  /** x in epoch seconds, then the values of each line. */
  data: [number[], ...(number | null)[][]];
}

/**
 * One metric of several GPUs over time, on one axis: hosts do not tell at the same moments, so their points are averaged
 * over equal steps. Empty if nothing was measured.
 */
export function linesOf(telemetry: Pick<Telemetry, "gpus" | "metrics" | "step_s">, metric: Metric): Lines {
  const step = Math.max(SECONDS_A_POINT, telemetry.step_s);
  const column = telemetry.metrics.indexOf(metric) + 1;
  const { gpus } = telemetry;
  const sums = new Map<number, { sum: number[]; count: number[] }>();
  for (const [index, gpu] of gpus.entries()) {
    for (const point of gpu.points) {
      const value = point[column];
      if (point[0] == null || value == null) continue;
      const at = Math.floor(point[0] / step) * step;
      let cell = sums.get(at);
      if (!cell) {
        cell = { sum: new Array(gpus.length).fill(0), count: new Array(gpus.length).fill(0) };
        sums.set(at, cell);
      }
      cell.sum[index] = (cell.sum[index] ?? 0) + value / METRICS[metric].unit;
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
  if (gpus.length <= MOST_LINES) {
    const several = new Set(gpus.map((gpu) => gpu.host)).size > 1;
    const names = gpus.map((gpu) => `GPU ${gpu.index}${several ? ` of ${gpu.host}` : ""}`);
    return { names, data: columnsWithGaps(rows, longest, gpus.length) };
  }
  const together = rows.map(([at, ...values]) => {
    const known = values.filter((value) => value != null);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    return [at as number, mean, Math.min(...known), Math.max(...known)];
  });
  return { names: ["mean", "lowest", "highest"], data: columnsWithGaps(together, longest, 3) };
}

/** One metric of one GPU in `bins` equal parts of the time up to `until` (epoch s): the mean of each, null where nothing
 * was measured. */
export function binned(
  telemetry: Pick<Telemetry, "gpus" | "metrics">,
  gpu: number,
  metric: Metric,
  until: number,
  seconds: number,
  bins: number,
): (number | null)[] {
  const column = telemetry.metrics.indexOf(metric) + 1;
  const points = telemetry.gpus.find((each) => each.index === gpu)?.points ?? [];
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
