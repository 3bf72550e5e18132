import type { Gpu } from "../api/types";

/** Shorten the domain of a PCI bus id to four digits. `lspci -D` writes it so. */
export const shortBusId = (pci: string) => pci.replace(/^0000(?=[0-9A-F]{4}:)/i, "");

/** Return the place of a GPU in its machine; empty if unknown. Example: "0000:3B:00.0, NUMA 1". */
export const placeOf = (gpu: Pick<Gpu, "pci" | "numa">) =>
  [shortBusId(gpu.pci), gpu.numa !== null && `NUMA ${gpu.numa}`].filter(Boolean).join(", ");
