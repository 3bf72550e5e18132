import type { Analysis, Cell, Experiment, Trial } from "../../../api/types";
import { plural } from "../../../format/number";
import { fourDigits } from "../../../sweeps/runs";

export type Level = Cell["levels"][string];

/** Maximum levels of a factor to draw means for. With more, only the table of points lists them. */
export const MOST_LEVELS = 10;
/** Maximum lines in a chart. More can't be told apart. */
const MOST_LINES = 6;

/** Return the response to compare. It is the chosen one, else the experiment's metric, else the run time. */
export function responseOf(
  chosen: string,
  { responses, metric }: Pick<Experiment, "responses" | "metric">,
): string {
  return (
    [chosen, metric.name, "run_time"].find((name) => responses.includes(name)) ?? responses[0] ?? "run_time"
  );
}

const valueIn = (run: Pick<Trial, "results">, response: string) => run.results?.[response];

export const measuredIn = (table: readonly Trial[], response: string) =>
  table.filter((run) => valueIn(run, response) !== undefined);

/** Return why there is no analysis yet; null: there is one. The service would refuse the analysis for the same
 * reason. */
export function lackOf(
  { table, factors, runs }: Pick<Experiment, "table" | "factors" | "runs">,
  response: string,
) {
  const measured = measuredIn(table, response);
  if (measured.length < 2)
    return `An analysis needs at least two finished runs: so far ${measured.length} of ${runs} have ${response}.`;
  const varied = factors.some((name) => new Set(measured.map((run) => String(run.params[name]))).size > 1);
  return varied ? null : "All finished runs have the same levels: nothing to compare yet.";
}

/** Return which runs the analysis lacks; null: none. */
export function gapsOf(
  { runs, counts }: Pick<Experiment, "runs" | "counts">,
  analysis: Analysis,
): string | null {
  const missing = runs - analysis.runs;
  if (missing <= 0) return null;
  const coming = counts.pending + counts.active;
  const lost = counts.failed + counts.cancelled;
  const why = [
    coming > 0 && `${coming} ${coming === 1 ? "has" : "have"} not finished`,
    lost > 0 && `${lost} did not succeed`,
    missing > coming + lost && `${missing - coming - lost} did not measure it`,
  ].filter(Boolean);
  return `Based on ${analysis.runs} of ${plural(runs, "run")}: ${why.join(", ")}.`;
}

/** Return the levels of a factor in the analysis' order. Numbers come first, by size, then texts. */
export function levelsOf(cells: readonly Pick<Cell, "levels">[], factor: string): Level[] {
  const found = [...new Set(cells.flatMap(({ levels }) => levels[factor] ?? []))];
  return found.toSorted((a, b) =>
    typeof a === "string" && typeof b === "string"
      ? Number(a > b) - Number(a < b)
      : Number(typeof a === "string") - Number(typeof b === "string") || Number(a) - Number(b),
  );
}

interface Mean {
  level: Level;
  mean: number;
  runs: number;
}

/** Return the mean of all runs for each level of a factor. */
export function meansBy(cells: readonly Cell[], factor: string): Mean[] {
  return levelsOf(cells, factor).map((level) => {
    const own = cells.filter(({ levels }) => levels[factor] === level);
    const runs = own.reduce((sum, cell) => sum + cell.runs, 0);
    return { level, runs, mean: own.reduce((sum, cell) => sum + cell.mean * cell.runs, 0) / runs };
  });
}

/** Return the means by one factor for each level of another. */
export function interactionOf(
  cells: readonly Cell[],
  across: string,
  by: string,
): { level: Level; means: Mean[] }[] {
  return levelsOf(cells, by).map((level) => ({
    level,
    means: meansBy(
      cells.filter(({ levels }) => levels[by] === level),
      across,
    ),
  }));
}

/** Two factors: `across`, with more levels, on the axis; `by` as lines. */
export interface Pair {
  across: string;
  by: string;
}

/** Return the pairs of factors to draw, most explanatory first. */
export function pairsOf({ cells, terms }: Pick<Analysis, "cells" | "terms">): Pair[] {
  const counts = Object.keys(cells[0]?.levels ?? {}).map(
    (name) => [name, levelsOf(cells, name).length] as const,
  );
  const drawn = counts.filter(([, count]) => count > 1 && count <= MOST_LEVELS);
  const pairs = drawn.flatMap(([one, many], at) =>
    drawn.slice(at + 1).map(([other, more]) => ({
      across: more > many ? other : one,
      by: more > many ? one : other,
      lines: Math.min(many, more),
      share: terms.find(({ factors }) => isPair(factors, one, other))?.share ?? 0,
    })),
  );
  return pairs
    .filter(({ lines }) => lines <= MOST_LINES)
    .toSorted((a, b) => b.share - a.share)
    .map(({ across, by }) => ({ across, by }));
}

const isPair = (factors: readonly string[], one: string, other: string) =>
  factors.length === 2 && factors.includes(one) && factors.includes(other);

/** Return the values of the runs for each level of a factor. */
export function valuesBy(table: readonly Trial[], factor: string, response: string) {
  const measured = measuredIn(table, response);
  const levels = levelsOf(
    measured.map((run) => ({ levels: run.params })),
    factor,
  );
  return levels.map((level) => ({
    level,
    values: measured
      .filter((run) => run.params[factor] === level)
      .map((run) => valueIn(run, response) as number)
      .toSorted((a, b) => a - b),
  }));
}

interface Box {
  /** Ends of the whiskers. They are the last values within 1.5 times the height of the box. */
  low: number;
  high: number;
  lower: number;
  median: number;
  upper: number;
}

/** Return the box of sorted values. There must be at least one. */
export function boxOf(sorted: readonly number[]): Box {
  const [lower, median, upper] = [0.25, 0.5, 0.75].map((share) => quantile(sorted, share)) as [
    number,
    number,
    number,
  ];
  const reach = 1.5 * (upper - lower);
  const within = sorted.filter((value) => value >= lower - reach && value <= upper + reach);
  return { low: within[0] ?? lower, high: within.at(-1) ?? upper, lower, median, upper };
}

/** Return a quantile, linearly interpolated as in R and NumPy. */
function quantile(sorted: readonly number[], share: number): number {
  const at = share * (sorted.length - 1);
  const below = sorted[Math.floor(at)] ?? Number.NaN;
  const above = sorted[Math.ceil(at)] ?? Number.NaN;
  return below + (above - below) * (at - Math.floor(at));
}

/** Format a value with its interval: "1.2 (1.1 to 1.3)". */
export const within = (value: number, low: number | null, high: number | null) =>
  low === null || high === null
    ? fourDigits(value)
    : `${fourDigits(value)} (${fourDigits(low)} to ${fourDigits(high)})`;

/** Format a probability with three decimals. */
export const shownP = (p: number | null) => (p === null ? "" : p < 0.001 ? "< 0.001" : p.toFixed(3));
