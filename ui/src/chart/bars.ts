import type { ChartData } from "./Chart";

/** What a bar stands for: on the axis, and in full. */
export interface Bin {
  tick: string;
  text: string;
}

type Column = readonly (number | null)[];

/** Each column upon those before it; hidden ones have no height. A bar of one reaches from the column before to it. */
export function stackedOf([, ...columns]: ChartData, hidden: ReadonlySet<number>): number[][] {
  let below: number[] = [];
  return columns.map((column, index) => {
    below = column.map((value, at) => (below[at] ?? 0) + (hidden.has(index) ? 0 : (value ?? 0)));
    return below;
  });
}

/** The sum of a column; null if it has no value at all. */
export function totalOf(column: Column | undefined): number | null {
  const values = column?.filter((value) => value !== null) ?? [];
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
}
