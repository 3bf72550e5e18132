import { MUTED, seriesColor, seriesColors } from "../format/color";
import type { Series } from "./Chart";

/** The colour of a series where it is painted. */
export function paintOf(series: readonly Series[], index: number, dark: boolean): string {
  if (series[index]?.muted) return dark ? MUTED.dark : MUTED.light;
  return seriesColor(index, dark);
}

/** The same in a style: it follows the colour scheme by itself. */
export function lookOf(series: readonly Series[], index: number): string {
  return series[index]?.muted ? `light-dark(${MUTED.light}, ${MUTED.dark})` : seriesColors(index);
}
