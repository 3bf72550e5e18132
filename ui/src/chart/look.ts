import { MUTED, seriesColor, seriesColors } from "../format/color";
import type { Series } from "./Chart";

/** Colour of a series for painting on a canvas. */
export function paintOf(series: readonly Series[], index: number, dark: boolean): string {
  if (series[index]?.muted) return dark ? MUTED.dark : MUTED.light;
  return seriesColor(index, dark);
}

/** Colour of a series for CSS. It follows the colour scheme by itself. */
export function lookOf(series: readonly Series[], index: number): string {
  return series[index]?.muted ? `light-dark(${MUTED.light}, ${MUTED.dark})` : seriesColors(index);
}
