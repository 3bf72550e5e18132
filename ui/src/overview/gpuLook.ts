import type { Gpu, Host } from "../api/types";

export type GpuKind = "job" | "free" | "foreign" | "fault" | "away";

/** How a GPU is shown, and what is said of it. */
export function lookOf(
  gpu: Gpu,
  host: Pick<Host, "reachable" | "state">,
  names: Record<string, string>,
): { kind: GpuKind; text: string } {
  const busy = gpu.utilization === null ? "" : `, ${Math.round(gpu.utilization)}% busy`;
  const is = (kind: GpuKind, what: string) => ({ kind, text: `GPU ${gpu.index}: ${what}${busy}` });
  if (gpu.fault) return is("fault", `unhealthy: ${gpu.fault}`);
  if (gpu.jobs.length > 0) return is("job", gpu.jobs.map((id) => names[id] ?? id).join(", "));
  if (!host.reachable) return is("away", "its host is not reachable");
  if (gpu.occupied_by) return is("foreign", `used by ${gpu.occupied_by}`);
  if (host.state !== "active") return is("away", `its host is ${host.state}`);
  return is("free", "free");
}
