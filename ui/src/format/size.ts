const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Format bytes: "64 KiB", "1.5 GiB". The unit is the largest with a value of at least 1. */
export function size(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(bytes, 1)) / 10)));
  const value = bytes / 1024 ** power;
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}
