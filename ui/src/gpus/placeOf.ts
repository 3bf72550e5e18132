import type { Gpu } from "../api/types";

/** A PCI bus id with four digits of the domain, as `lspci -D` writes it. */
export const shortBusId = (pci: string) => pci.replace(/^0000(?=[0-9A-F]{4}:)/i, "");

/** Where a GPU is in its machine: "0000:3B:00.0, NUMA 1"; empty where that is not known. */
export const placeOf = (gpu: Pick<Gpu, "pci" | "numa">) =>
  [shortBusId(gpu.pci), gpu.numa !== null && `NUMA ${gpu.numa}`].filter(Boolean).join(", ");
