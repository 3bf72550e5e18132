import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useMemo, useRef } from "react";
import uPlot from "uplot";
import { seriesColor } from "../format/color";
import { plainNumber } from "../format/number";
import { when } from "../format/time";
import { type ChartProps, LEGEND_PX, type Marker } from "./Chart";
import classes from "./Plot.module.css";
import { timeLabels } from "./ticks";

const COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

export default function Plot({
  label,
  series,
  data,
  time = false,
  xName = "",
  markers = [],
  height = 200,
  fromZero = true,
  whole = false,
  format = plainNumber,
}: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = useComputedColorScheme("light") === "dark";
  const shown = useRef<{ markers: readonly Marker[]; format: (value: number) => string }>({
    markers,
    format,
  });
  shown.current = { markers, format };
  const shape = JSON.stringify(series);
  const aligned = useMemo(() => data as unknown as uPlot.AlignedData, [data]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: data and markers are set below, without a new chart.
  useEffect(() => {
    const box = frame.current;
    if (!box) return;
    const ink = dark ? "#9aa6a2" : "#586360";
    const grid = { stroke: dark ? "#28312e" : "#e9e7df", width: 1 };
    const axis = {
      stroke: ink,
      grid,
      ticks: { show: false },
      font: "12px ui-sans-serif, system-ui, sans-serif",
    };
    const made = new uPlot(
      {
        width: box.clientWidth,
        height,
        padding: [10, 12, 0, 0],
        cursor: { drag: { x: true, y: false } },
        scales: {
          x: { time },
          y: { range: (_, low, high) => bounds(low, high, fromZero) },
        },
        axes: [
          {
            ...axis,
            space: 70,
            size: time ? 44 : 32, // a label of two lines is no wider than the others, and not cut off at the edge
            values: time ? (_, ticks) => timeLabels(ticks, (date, at) => `${at}\n${date}`) : undefined,
          },
          {
            ...axis,
            size: 56,
            incrs: whole ? COUNTS : undefined,
            values: (_, ticks) => ticks.map((tick) => shown.current.format(tick)),
          },
        ],
        series: [
          { label: xName || (time ? "Time" : "x"), value: (_, x) => pointLabel(x, time) },
          ...series.map((each, index) => {
            const color = seriesColor(index, dark);
            return {
              label: each.name,
              stroke: color,
              width: each.dots ? 0 : 1.75,
              spanGaps: each.joined === true,
              dash: each.dashed ? [5, 4] : undefined,
              fill: each.filled ? `${color}2b` : undefined,
              paths: each.stepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
              points: { show: each.dots === true, size: 7, fill: color },
              value: (_: uPlot, value: number | null) => (value === null ? "–" : shown.current.format(value)),
            };
          }),
        ],
        hooks: { draw: [(self) => drawMarkers(self, shown.current.markers, ink)] },
      },
      aligned,
      box,
    );
    plot.current = made;
    const sizes = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height }));
    sizes.observe(box);
    return () => {
      sizes.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [dark, shape, time, xName, height, fromZero, whole]);

  useEffect(() => plot.current?.setData(aligned), [aligned]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the markers are read while it draws.
  useEffect(() => plot.current?.redraw(false), [markers]);

  return (
    <div
      ref={frame}
      className={classes.plot}
      style={{ minHeight: height + LEGEND_PX }}
      role="img"
      aria-label={label}
    />
  );
}

function bounds(low: number | null, high: number | null, fromZero: boolean): [number, number] {
  if (low === null || high === null) return [0, 1];
  if (fromZero) return [Math.min(0, low), high > 0 ? high * 1.08 : 1];
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - room, high + room];
}

function pointLabel(x: number | null, time: boolean): string {
  if (x === null) return "–";
  return time ? when(x * 1000, Date.now(), true) : plainNumber(x);
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
    if (at < free) continue; // the words of the one before stand here
    const left = Math.min(at + 4 * ratio, bbox.left + bbox.width - width);
    ctx.fillText(text, left, bbox.top + 10 * ratio);
    free = left + width + 8 * ratio;
  }
  ctx.restore();
}
