import type { Host } from "../api/types";

/** Return the number of healthy GPUs of each type. */
export function gpuTypes(hosts: readonly Host[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const { gpus } of hosts)
    for (const gpu of gpus)
      if (gpu.state !== "unhealthy") found.set(gpu.type, (found.get(gpu.type) ?? 0) + 1);
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}
