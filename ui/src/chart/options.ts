import uPlot from "uplot";
import type { Bin } from "./bars";
import type { ChartProps, Marker, Series, View } from "./Chart";
import type { Range } from "./group";
import { paintOf } from "./look";
import { logBounds, logTicks, roundScale, ticksOf, withEnds } from "./scale";
import {
  labelsWithEnds,
  multiples,
  numberLabel,
  numberTicks,
  roomFor,
  timeTicks,
  valueLabels,
  widthOf,
} from "./ticks";

/** Values read while drawing. They may change without a new plot. */
export interface Live {
  markers: readonly Marker[];
  format: (value: number) => string;
  bins: readonly Bin[] | undefined;
  zoom: Range | null;
  onZoom: View["onZoom"];
  onCursor: (plot: uPlot) => void;
}

interface Look {
  dark: boolean;
  width: number;
  height: number;
  log: boolean;
  /** The measured values are drawn behind each line. */
  faint: boolean;
  sharedBy: string;
}

type Shape = Required<Pick<ChartProps, "time" | "fromZero" | "whole">> & {
  series: readonly Series[];
  /** The series are stacked bars. */
  asBars: boolean;
};

const Y_STEP_PX = 28;
const X_SPACE_PX = 76;
const X_GAP_PX = 9;
const LEAST_DRAG_PX = 4;
/** Share of a bin's width that a bar fills. */
const BAR_SHARE = 0.8;
const FONT = "12px ui-sans-serif, system-ui, sans-serif";

/** Return the ends of the x axis. A single point lies in the middle, and bars reach half a step further. */
export function endsOf(x: readonly number[], zoom: Range | null, asBars: boolean): [number, number] {
  if (zoom) return [zoom[0], zoom[1]];
  const [low = 0, high = 1] = [x[0], x.at(-1)];
  return asBars || low === high ? [low - 0.5, high + 0.5] : [low, high];
}

export function optionsOf(
  { time, fromZero, whole, series, asBars }: Shape,
  look: Look,
  live: { current: Live },
): uPlot.Options {
  const { dark, width, height, log, faint } = look;
  const ink = dark ? "#9aa6a2" : "#586360";
  const axis = {
    stroke: ink,
    grid: { stroke: dark ? "#28312e" : "#e9e7df", width: 1 },
    ticks: { show: false },
    font: FONT,
  };
  const most = Math.max(2, Math.floor((height - 50) / Y_STEP_PX));
  const rounded = (low: number | null, high: number | null) =>
    roundScale(low, high, { fromZero, whole, most });
  return {
    width,
    height,
    // Half of the last label lies beyond the axis.
    padding: [
      10,
      (plot) => Math.max(30, widthOf(lastLabelOf(plot, live.current, { time, asBars })) / 2),
      0,
      0,
    ],
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: !asBars },
      drag: { x: true, y: false, setScale: false },
      bind: {
        dblclick: () => () => {
          live.current.onZoom(null);
          return null;
        },
      },
      sync: {
        key: look.sharedBy,
        scales: ["x", null],
        setSeries: false,
        filters: { pub: isMove, sub: isMove },
      },
    },
    scales: {
      x: { time, range: (plot) => endsOf(plot.data[0] as number[], live.current.zoom, asBars) },
      y: log
        ? { distr: 3, range: (_, low, high) => logBounds(low, high) }
        : {
            range: (_, low, high) => {
              const { min, max } = rounded(low, high);
              return [min, max];
            },
          },
    },
    axes: [
      {
        ...axis,
        space: X_SPACE_PX,
        gap: X_GAP_PX,
        ...(asBars && { incrs: WHOLE_STEPS }),
        // A label of two lines keeps its width, and is not cut off at the edge.
        size: (_, values) => (values?.some((each) => each.includes("\n")) ? 48 : 34),
        splits: (plot, _, min, max, step) => {
          const wide = Math.max(1, plot.bbox.width / devicePixelRatio);
          if (time) return timeTicks(min, max, step, wide);
          if (!asBars) return numberTicks(min, max, step, wide);
          const ends = [Math.ceil(min), Math.floor(max)] as const;
          const labels = (live.current.bins ?? []).map(({ tick }) => tick);
          return withEnds(multiples(...ends, step), ...ends, roomFor(labels, max - min, wide));
        },
        values: (_, ticks, __, ___, step) => {
          if (asBars) return ticks.map((tick) => live.current.bins?.[tick]?.tick ?? "");
          return time ? labelsWithEnds(ticks, step) : ticks.map((tick) => numberLabel(tick, step));
        },
      },
      {
        ...axis,
        size: (_, values) => Math.max(56, 16 + 7 * Math.max(0, ...(values ?? []).map((each) => each.length))),
        splits: (_, __, min, max) =>
          log ? logTicks(min, max, most) : ticksOf({ ...rounded(min, max), min, max }),
        filter: (_, ticks) => ticks,
        values: (_, ticks) => valueLabels(ticks, live.current.format),
      },
    ],
    series: [
      {},
      ...series.map((each, index) => (asBars ? barOf : lineOf)(each, paintOf(series, index, dark))),
      ...(faint ? series.map((each, index) => faintOf(each, paintOf(series, index, dark))) : []),
    ],
    hooks: {
      draw: [(plot) => drawMarkers(plot, live.current.markers, ink)],
      setCursor: [(plot) => live.current.onCursor(plot)],
      setSelect: [
        (plot) => {
          const { left, width: chosen } = plot.select;
          if (chosen < LEAST_DRAG_PX) return;
          live.current.onZoom([plot.posToVal(left, "x"), plot.posToVal(left + chosen, "x")]);
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

const WHOLE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200];

/** Return the label at the right end of the axis. For times, it has the maximum length. */
function lastLabelOf(plot: uPlot, { bins, zoom }: Live, { time, asBars }: Pick<Shape, "time" | "asBars">) {
  if (time) return "00:00:00";
  const [x = []] = (plot.data ?? []) as number[][]; // uPlot also calls this before the first data
  const [, max] = endsOf(x, zoom, asBars);
  return asBars ? (bins?.[Math.floor(max)]?.tick ?? "") : numberLabel(max, Math.max(1, max / 100));
}

const isMove = (type: string) => type === "mousemove" || type === "mouseleave";

function lineOf(each: Series, color: string): uPlot.Series {
  return {
    label: each.name,
    stroke: color,
    width: each.dots ? 0 : 1.75,
    spanGaps: each.joined === true,
    dash: each.dashed ? [5, 4] : undefined,
    fill: each.filled ? `${color}2b` : undefined,
    paths: each.stepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
    points: { show: each.dots === true ? true : undefined, size: 7, fill: color },
  };
}

function barOf(each: Series, color: string): uPlot.Series {
  return {
    label: each.name,
    stroke: color,
    width: 0,
    fill: color,
    paths: barPaths,
    points: { show: false },
  };
}

/** Draw the bars of one series, each upon the series before it. */
function barPaths(plot: uPlot, index: number, first: number, last: number): uPlot.Series.Paths {
  const [x = [], ...columns] = plot.data as number[][];
  const [tops = [], floors] = [columns[index - 1], columns[index - 2]];
  const fill = new Path2D();
  const wide = Math.max(1, (plot.valToPos(1, "x", true) - plot.valToPos(0, "x", true)) * BAR_SHARE);
  for (let at = first; at <= last; at++) {
    const left = plot.valToPos(x[at] ?? 0, "x", true) - wide / 2;
    const top = plot.valToPos(tops[at] ?? 0, "y", true);
    const bottom = plot.valToPos(floors?.[at] ?? 0, "y", true);
    if (bottom > top) fill.rect(left, top, wide, bottom - top);
  }
  return { stroke: new Path2D(), fill };
}

/** Style of the measured values behind a line. Without a label, they appear in no list of lines. */
function faintOf(each: Series, color: string): uPlot.Series {
  return { stroke: `${color}55`, width: 1, spanGaps: each.joined === true, points: { show: false } };
}

function drawMarkers(plot: uPlot, markers: readonly Marker[], ink: string) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px ui-sans-serif, system-ui, sans-serif`;
  ctx.fillStyle = ctx.strokeStyle = ink;
  ctx.textAlign = "left";
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  let free = 0;
  for (const { x, text } of markers) {
    const at = Math.round(plot.valToPos(x, "x", true));
    if (at < bbox.left || at > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    const width = ctx.measureText(text).width;
    if (at < free) continue; // the previous label covers this place
    const left = Math.min(at + 4 * ratio, bbox.left + bbox.width - width);
    ctx.fillText(text, left, bbox.top + 10 * ratio);
    free = left + width + 8 * ratio;
  }
  ctx.restore();
}
