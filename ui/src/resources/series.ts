import type { Resources } from "../api/types";
import { size } from "../format/size";
import { type Lines, overlaid } from "../gpus/telemetry";

/** Resources of containers and hosts, by the columns of the service's replies. Several columns are the lines of one
 * chart, each the sum over all containers. `suffix` follows the unit of values in bytes. */
export const METRICS = {
  cpus: { title: "Processors", columns: ["cpus"], names: [], suffix: null },
  memory_bytes: { title: "Memory", columns: ["memory_bytes"], names: [], suffix: "" },
  network: { title: "Network", columns: ["network_in", "network_out"], names: ["in", "out"], suffix: "/s" },
  disk: { title: "Disk", columns: ["disk_read", "disk_written"], names: ["read", "written"], suffix: "/s" },
  disk_bytes: { title: "Disk in use", columns: ["disk_bytes"], names: [], suffix: "" },
} as const;

export type ResourceMetric = keyof typeof METRICS;

interface ResourceLines extends Lines {
  format: (value: number) => string;
}

/** Format a number of busy cores: "0.4 cores". */
export function cores(value: number): string {
  const shown = value >= 10 ? Math.round(value) : Number(value < 1 ? value.toPrecision(2) : value.toFixed(1));
  return `${shown} ${shown === 1 ? "core" : "cores"}`;
}

/** Return the lines of one chart, per container or per column. Several columns are summed over all containers. Bytes
 * are in the unit that suits their maximum, for round ticks. */
export function resourceLines(resources: Resources, metric: ResourceMetric): ResourceLines {
  const { columns, names, suffix } = METRICS[metric];
  const places = columns.map((name) => resources.metrics.indexOf(name) + 1);
  const step = resources.step_s;
  const several = places.length > 1;
  const measured = several
    ? places.map((place, index) => ({ name: names[index] ?? "", points: sum(resources, place, step) }))
    : nameContainers(resources.series).map((name, index) => ({
        name,
        points: resources.series[index]?.points ?? [],
      }));
  const column = several ? 1 : (places[0] ?? 0);
  if (suffix === null) return { ...overlaid(measured, column, 1, step), format: cores };
  const most = Math.max(0, ...measured.flatMap(({ points }) => points.map((point) => point[column] ?? 0)));
  const { bytes, name } = unitOf(most);
  const format = (value: number) => `${Number(value.toFixed(value < 10 ? 1 : 0))} ${name}${suffix}`;
  return { ...overlaid(measured, column, bytes, step), format };
}

function unitOf(most: number): { bytes: number; name: string } {
  if (most >= 2 ** 30) return { bytes: 2 ** 30, name: "GiB" };
  if (most > 0 && most < 2 ** 10) return { bytes: 1, name: "B" };
  return most > 0 && most < 2 ** 20 ? { bytes: 2 ** 10, name: "KiB" } : { bytes: 2 ** 20, name: "MiB" };
}

/** Sum a column over all containers, in equal time steps. */
function sum(resources: Resources, place: number, step: number): [number, number][] {
  const sums = new Map<number, number>();
  for (const { points } of resources.series) {
    for (const point of points) {
      const [at, value] = [point[0], point[place]];
      if (at == null || value == null) continue;
      const begin = Math.floor(at / step) * step;
      sums.set(begin, (sums.get(begin) ?? 0) + value);
    }
  }
  return [...sums.entries()].toSorted(([a], [b]) => a - b);
}

/** Return short names of containers. They contain the rank, and the attempt and host if there are several. */
export function nameContainers(series: Resources["series"]): string[] {
  const attempts = new Set(series.map((each) => each.attempt)).size > 1;
  const hosts = new Set(series.map((each) => each.host)).size > 1;
  return series.map((each) => {
    if (each.rank === null) return each.name;
    const words = [
      attempts && `attempt ${each.attempt}`,
      `rank ${each.rank}`,
      hosts && `on ${each.host}`,
    ].filter(Boolean);
    return words.join(" ");
  });
}

/** Return the note below a memory chart: the peak, and the limit. */
export function memoryNote(series: Resources["series"]): string {
  const peak = Math.max(0, ...series.map((each) => each.memory_peak ?? 0));
  const limits = series.flatMap((each) => (each.memory_limit === null ? [] : [each.memory_limit]));
  const limit = limits.length > 0 ? Math.min(...limits) : null;
  const parts = [
    peak > 0 && `The most seen at once is ${size(peak)}`,
    limit !== null && `${peak > 0 ? "a" : "A"} container ends at ${size(limit)}`,
  ].filter(Boolean);
  return parts.length > 0 ? `${parts.join("; ")}.` : "";
}
