import type { Gpu } from "../../api/types";

/** Return why a GPU can't be reset; null: it may be tried. */
export function whyNoReset(
  gpu: Pick<Gpu, "simulated" | "jobs" | "state" | "uuid" | "occupied_by">,
): string | null {
  if (gpu.simulated) return "It is simulated: there is nothing to reset.";
  if (gpu.uuid.startsWith("MIG-")) return "It is a MIG device: only the whole GPU can be reset.";
  if (gpu.jobs.length > 0 || gpu.state === "used") return "A job uses it: drain it first.";
  if (gpu.occupied_by) return `It is used by ${gpu.occupied_by}: end it first.`;
  return null;
}
