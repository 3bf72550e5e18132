import type { Gpu, Host } from "../api/types";
import { size } from "../format/size";

type GpuKind = "job" | "free" | "foreign" | "fault" | "away";

/** Return the style and description of a GPU. */
export function lookOf(
  gpu: Gpu,
  host: Pick<Host, "reachable" | "state">,
  names: Record<string, string>,
): { kind: GpuKind; text: string } {
  const { utilization, reading } = gpu;
  const measured = [
    utilization !== null && `${Math.round(utilization)}% busy`,
    reading?.memory_bytes != null && size(reading.memory_bytes),
    reading?.power_w != null && `${Math.round(reading.power_w)} W`,
  ].filter(Boolean);
  const is = (kind: GpuKind, what: string) => ({
    kind,
    text: `GPU ${gpu.index}: ${[what, gpu.unwatched && "no readings", ...measured].filter(Boolean).join(", ")}`,
  });
  if (gpu.fault) return is("fault", `unhealthy: ${gpu.fault}`);
  if (gpu.jobs.length > 0) return is("job", gpu.jobs.map((id) => names[id] ?? id).join(", "));
  if (gpu.state === "used") return is("foreign", "used by a job that you may not see");
  if (!host.reachable) return is("away", "its host is not reachable");
  if (gpu.unwatched) return is("away", "not monitored now");
  if (gpu.occupied_by) return is("foreign", `used by ${gpu.occupied_by}`);
  if (gpu.cordoned) return is("away", closedBy(gpu));
  if (host.state !== "active") return is("away", `its host is ${host.state}`);
  return is("free", "free");
}

/** Return how an operator closed a GPU. */
export const closedBy = (gpu: Pick<Gpu, "drain_until">) =>
  gpu.drain_until === null ? "cordoned" : "draining";

/** Measurement that fills a GPU's square. */
export type Measure = "busy" | "memory" | "power";

/** Return the fill of a square in percent. Without a measurement it is 100. `mostW` is the highest power draw of a
 * GPU in watts. */
export function fillOf(gpu: Gpu, measure: Measure, mostW: number): number {
  const { reading, utilization, memory_bytes } = gpu;
  if (measure === "busy") return utilization ?? 100;
  if (measure === "memory") return share(reading?.memory_bytes, memory_bytes);
  return share(reading?.power_w, mostW);
}

const share = (part: number | null | undefined, whole: number) =>
  part == null || whole <= 0 ? 100 : Math.min(100, (100 * part) / whole);

export const mostWatts = (hosts: readonly Pick<Host, "gpus">[]) =>
  hosts.reduce((most, host) => host.gpus.reduce((m, gpu) => Math.max(m, gpu.reading?.power_w ?? 0), most), 0);

/** Group adjacent GPUs with the same jobs, on lines of `line` GPUs. */
export function runsOf(gpus: readonly Gpu[], line: number): Gpu[][] {
  const runs: Gpu[][] = [];
  for (const [at, gpu] of gpus.entries()) {
    const run = runs.at(-1);
    if (run && at % line !== 0 && run[0]?.jobs.join() === gpu.jobs.join()) run.push(gpu);
    else runs.push([gpu]);
  }
  return runs;
}
