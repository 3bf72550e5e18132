import type { ChartProps } from "./Chart";

/** The last value of a column, leaving out what is missing; null if there is none. */
export function lastOf(values: readonly (number | null)[] | undefined): number | null {
  return values?.findLast((value) => value !== null) ?? null;
}

/** So far from the crosshair, in points of all series, a series' own point still counts. */
const REACH = 50;

/** The index of the value nearest to `index`, for series whose points lie between those of others; null: none is near. */
export function nearestIndex(values: readonly (number | null)[] | undefined, index: number): number | null {
  for (let far = 0; far <= REACH; far++) {
    if (values?.[index - far] != null) return index - far;
    if (values?.[index + far] != null) return index + far;
  }
  return null;
}

export const quoted = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** A spreadsheet takes text that begins like this for a formula. */
export const harmless = (text: string) => (/^[=+@-]/.test(text) ? `'${text}` : text);

/** How a file writes the x of a chart: times are written as such. */
export function xText({ time, bins }: Pick<ChartProps, "time" | "bins">): (x: number) => string {
  if (bins) return (x) => bins[x]?.text ?? "";
  return time ? (x) => new Date(x * 1000).toISOString() : String;
}

/** What is drawn, as a file for spreadsheets. */
export function csvOf(
  names: readonly string[],
  data: readonly [readonly number[], ...(readonly (number | null)[])[]],
  text: (x: number) => string,
): string {
  const [xs, ...columns] = data;
  const rows = xs.map((x, at) => [quoted(text(x)), ...columns.map((column) => column[at] ?? "")]);
  return `${[names.map((name) => quoted(harmless(name))), ...rows].map((row) => row.join(",")).join("\n")}\n`;
}
