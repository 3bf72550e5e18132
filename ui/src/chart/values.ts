import type { ChartProps } from "./Chart";

/** Return the last value present in a column, or null. */
export function lastOf(values: readonly (number | null)[] | undefined): number | null {
  return values?.findLast((value) => value !== null) ?? null;
}

/** Maximum distance from the crosshair to a series' own point. It is measured in points of all series. */
const REACH = 50;

/** Return the index of the value nearest to `index`, or null. This is for series whose points lie between those of
 * others. null means that no value is near. */
export function nearestIndex(values: readonly (number | null)[] | undefined, index: number): number | null {
  for (let far = 0; far <= REACH; far++) {
    if (values?.[index - far] != null) return index - far;
    if (values?.[index + far] != null) return index + far;
  }
  return null;
}

export const quoted = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Escape text that a spreadsheet would take for a formula. */
export const harmless = (text: string) => (/^[=+@-]/.test(text) ? `'${text}` : text);

/** Return a formatter of x values for a file. Times are in ISO 8601. */
export function xText({ time, bins }: Pick<ChartProps, "time" | "bins">): (x: number) => string {
  if (bins) return (x) => bins[x]?.text ?? "";
  return time ? (x) => new Date(x * 1000).toISOString() : String;
}

/** Return a chart's data as CSV. */
export function csvOf(
  names: readonly string[],
  data: readonly [readonly number[], ...(readonly (number | null)[])[]],
  text: (x: number) => string,
): string {
  const [xs, ...columns] = data;
  const rows = xs.map((x, at) => [quoted(text(x)), ...columns.map((column) => column[at] ?? "")]);
  return `${[names.map((name) => quoted(harmless(name))), ...rows].map((row) => row.join(",")).join("\n")}\n`;
}
