import type { ChartData } from "./Chart";

/** Label of a bar: short on the axis, and in full. */
export interface Bin {
  tick: string;
  text: string;
}

type Column = readonly (number | null)[];

/** Stack each column on those before it. A hidden column has no height. A bar reaches from the column before to its
 * own. */
export function stackedOf([, ...columns]: ChartData, hidden: ReadonlySet<number>): number[][] {
  let below: number[] = [];
  return columns.map((column, index) => {
    below = column.map((value, at) => (below[at] ?? 0) + (hidden.has(index) ? 0 : (value ?? 0)));
    return below;
  });
}

/** Return the sum of a column, or null without values. */
export function totalOf(column: Column | undefined): number | null {
  const values = column?.filter((value) => value !== null) ?? [];
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
}
