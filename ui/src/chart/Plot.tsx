import { clock } from "../format/clock";
import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme } from "@mantine/core";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { plainNumber } from "../format/number";
import { when } from "../format/time";
import { stackedOf } from "./bars";
import type { ChartData, ChartProps, View } from "./Chart";
import { smoothed } from "./curves";
import { lookOf } from "./look";
import { endsOf, type Live, optionsOf } from "./options";
import classes from "./Plot.module.css";
import { nearestIndex } from "./values";

interface Props extends ChartProps {
  data: ChartData;
  view: View;
}

/** Position of the crosshair: index of a point, and pixels. */
interface Place {
  index: number;
  left: number;
  top: number;
}

/** Points that an arrow key moves with Shift. */
const LEAP = 10;

export default function Plot(props: Props) {
  const { label, series, data, view, time = false, markers = [], height = 200, bins } = props;
  const { fromZero = true, whole = false, format = plainNumber, smoothing = 0 } = props;
  const box = useRef<HTMLDivElement>(null);
  const dark = useComputedColorScheme("light") === "dark";
  const [place, setPlace] = useState<Place | null>(null);
  const [byKeys, setByKeys] = useState(false);
  const asBars = bins !== undefined;
  const stacked = asBars ? view.hidden : null;
  const drawn = useMemo(
    () => (stacked ? barsOf(data, stacked) : drawnOf(data, smoothing, view.log)),
    [data, stacked, smoothing, view.log],
  );

  const live = useRef<Live>(null as unknown as Live);
  live.current = {
    markers,
    format,
    bins,
    zoom: view.zoom,
    onZoom: view.onZoom,
    onCursor: ({ cursor: { idx, left = -1, top = -1 } }) =>
      setPlace(idx == null || left < 0 ? null : { index: idx, left, top }),
  };

  const shape = JSON.stringify(series);
  const faint = smoothing > 0;
  const plot = useRef<uPlot | null>(null);
  const { sharedBy, log, onPlot } = view;
  // biome-ignore lint/correctness/useExhaustiveDependencies: values that change often are set below, on the same plot.
  useEffect(() => {
    const here = box.current;
    if (!here) return;
    const look = { dark, width: here.clientWidth, height, log, faint, sharedBy };
    const made = new uPlot(optionsOf({ time, fromZero, whole, series, asBars }, look, live), drawn, here);
    plot.current = made;
    onPlot(made);
    const sizes = new ResizeObserver(() => {
      // The observer also reports the initial size, and a new size removes the crosshair.
      if (here.clientWidth !== made.width) made.setSize({ width: here.clientWidth, height });
    });
    sizes.observe(here);
    return () => {
      sizes.disconnect();
      made.destroy();
      plot.current = null;
      onPlot(null);
    };
  }, [dark, shape, time, height, fromZero, whole, asBars, log, faint, sharedBy]);

  useEffect(() => plot.current?.setData(drawn), [drawn]);
  useEffect(() => {
    const [min, max] = endsOf(data[0], view.zoom, asBars);
    plot.current?.setScale("x", { min, max });
  }, [view.zoom, data, asBars]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new plot shows all series.
  useEffect(() => {
    for (const [index] of series.entries()) {
      const show = !view.hidden.has(index);
      for (const each of faint ? [index + 1, series.length + index + 1] : [index + 1])
        if (plot.current?.series[each]?.show !== show) plot.current?.setSeries(each, { show });
    }
  }, [view.hidden, shape, faint, log, dark, height]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the markers are read while drawing.
  useEffect(() => plot.current?.redraw(false), [markers]);

  /** Put the crosshair on a point, also in charts that share it. */
  function goTo(index: number) {
    const x = data[0][Math.max(0, Math.min(data[0].length - 1, index))];
    if (x === undefined || !plot.current) return;
    setByKeys(true);
    moveCursor(plot.current, plot.current.valToPos(x, "x"), 0);
  }
  function zoomBy(factor: number) {
    const [min, max] = endsOf(data[0], view.zoom, asBars);
    const [from, to] = endsOf(data[0], null, asBars);
    const middle = (place && data[0][place.index]) ?? (min + max) / 2;
    const next = [
      Math.max(from, middle - (middle - min) * factor),
      Math.min(to, middle + (max - middle) * factor),
    ];
    view.onZoom(next[0] === from && next[1] === to ? null : [next[0] as number, next[1] as number]);
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [first, last] = shownBetween(data[0], endsOf(data[0], view.zoom, asBars));
    const at = place?.index ?? last + 1;
    const leap = event.shiftKey ? LEAP : 1;
    const acts: Record<string, () => void> = {
      ArrowLeft: () => goTo(Math.max(first, at - leap)),
      ArrowRight: () => goTo(Math.min(last, place ? at + leap : first)),
      Home: () => goTo(first),
      End: () => goTo(last),
      "+": () => zoomBy(0.5),
      "=": () => zoomBy(0.5),
      "-": () => zoomBy(2),
      "0": () => view.onZoom(null),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  const tip = place && { ...place, rows: rowsAt(props, place.index, view.hidden) };
  const sum =
    asBars && tip && tip.rows.length > 1 ? tip.rows.reduce((all, { value }) => all + value, 0) : null;
  return (
    <div
      className={classes.frame}
      style={{ height }}
      role="application"
      aria-roledescription="chart"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move its crosshair.
      tabIndex={0}
      onKeyDown={onKeyDown}
      onPointerMove={() => setByKeys(false)}
      onBlur={() => byKeys && plot.current && moveCursor(plot.current, -10, -10)}
    >
      <div ref={box} className={classes.plot} />
      {tip && tip.rows.length > 0 && plot.current && (
        <div className={classes.tip} data-testid="chart-tip" style={placed(tip, plot.current)} aria-hidden>
          <div className={classes.at}>{xLabel(data[0][tip.index], props)}</div>
          {tip.rows.map(({ index, name, text }) => (
            <div key={name} className={classes.row}>
              <i style={{ background: lookOf(series, index) }} />
              <span>{name}</span>
              <b>{text}</b>
            </div>
          ))}
          {sum !== null && (
            <div className={classes.row}>
              <span>together</span>
              <b>{format(sum)}</b>
            </div>
          )}
        </div>
      )}
      <span className={classes.said} aria-live="polite">
        {byKeys && tip
          ? `${xLabel(data[0][tip.index], props)}: ${tip.rows.map(({ name, text }) => `${name} ${text}`).join(", ")}`
          : ""}
      </span>
    </div>
  );
}

/** Move the crosshair, also in the charts that share it. uPlot's types omit these parameters. */
function moveCursor(plot: uPlot, left: number, top: number) {
  const move = plot.setCursor as (at: { left: number; top: number }, fire: boolean, publish: boolean) => void;
  move({ left, top }, true, true);
}

/** Return uPlot's data: the smoothed lines, then the measured ones. A logarithmic axis shows only values above 0. */
function drawnOf(data: ChartData, smoothing: number, log: boolean): uPlot.AlignedData {
  const [x, ...columns] = data;
  const lines =
    smoothing > 0 ? [...columns.map((column) => smoothed(column, smoothing)), ...columns] : columns;
  const shown = log
    ? lines.map((line) => line.map((each) => (each !== null && each > 0 ? each : null)))
    : lines;
  return [x, ...shown] as uPlot.AlignedData;
}

/** Return uPlot's data of stacked bars. */
function barsOf(data: ChartData, hidden: ReadonlySet<number>): uPlot.AlignedData {
  return [data[0], ...stackedOf(data, hidden)] as uPlot.AlignedData;
}

/** Return the indexes of the first and last point in view. */
function shownBetween(x: readonly number[], [min, max]: readonly [number, number]): [number, number] {
  const first = x.findIndex((each) => each >= min);
  return [
    Math.max(0, first),
    Math.max(
      0,
      x.findLastIndex((each) => each <= max),
    ),
  ];
}

function rowsAt(props: Props, at: number, hidden: ReadonlySet<number>) {
  const { series, data, format = plainNumber, smoothing = 0 } = props;
  return series.flatMap(({ name, joined }, index) => {
    const column = data[index + 1];
    const found = joined ? nearestIndex(column, at) : at;
    const value = found === null ? null : column?.[found];
    if (hidden.has(index) || value == null) return [];
    const mean = smoothing > 0 ? smoothed(column?.slice(0, (found ?? 0) + 1) ?? [], smoothing).at(-1) : null;
    return [
      { index, name, value, text: mean == null ? format(value) : `${format(mean)} (${format(value)})` },
    ];
  });
}

function xLabel(x: number | undefined, { time, xName = "", bins }: Props): string {
  if (x === undefined) return "";
  if (bins) return bins[x]?.text ?? "";
  return time ? when(x * 1000, clock.now(), true) : `${xName} ${plainNumber(x)}`.trim();
}

/** Place the tooltip beside the crosshair, on the side with space. If the crosshair comes from another chart, the
 * tooltip is at the top. */
function placed({ left, top }: Place, plot: uPlot) {
  const { left: from, width } = plot.bbox;
  const at = from / devicePixelRatio + left;
  const beyond = left > width / devicePixelRatio / 2;
  const side = beyond ? "calc(-100% - 12px)" : "12px";
  return { transform: `translate(${at}px, ${Math.max(0, top)}px) translateX(${side})` };
}
