import { ActionIcon, Button, Menu, Skeleton, Tooltip } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type uPlot from "uplot";
import { plainNumber } from "../format/number";
import { Code } from "../shell/code";
import { Icon } from "../shell/Icon";
import { Part } from "../shell/Part";
import { type Bin, totalOf } from "./bars";
import classes from "./Chart.module.css";
import { type Range, useChartGroup } from "./group";
import { lookOf } from "./look";
import { download, pictureOf } from "./picture";
import { csvOf, lastOf, xText } from "./values";

export interface Series {
  name: string;
  /** Holds its value until the next point, as an allocation does. */
  stepped?: boolean;
  dashed?: boolean;
  /** Fills the area below the line. */
  filled?: boolean;
  /** Draws the line across points where only other series have a value. */
  joined?: boolean;
  /** Points without a line. */
  dots?: boolean;
  /** Grey, for what belongs to nobody: idle time, all others. */
  muted?: boolean;
}

export interface Marker {
  x: number;
  text: string;
}

export type ChartData = readonly [readonly number[], ...(readonly (number | null)[])[]];

export interface ChartProps {
  title: string;
  /** Sentence for screen readers that says what the chart shows. */
  label: string;
  series: readonly Series[];
  /** x, then the values of each series; null while loading. x is epoch seconds if `time`. */
  data: ChartData | null;
  time?: boolean;
  xName?: string;
  /** Stacked bars in place of lines. x is the index of a bin. */
  bins?: readonly Bin[];
  /** Vertical lines with a label. */
  markers?: readonly Marker[];
  height?: number;
  /** The axis begins at 0. */
  fromZero?: boolean;
  /** The values are counts, so ticks are whole numbers. */
  whole?: boolean;
  format?: (value: number) => string;
  /** Smoothing of the lines, from 0 to below 1. The measured values stay visible behind them, faint. */
  smoothing?: number;
  /** Shown beside the title. */
  action?: ReactNode;
  /** Shown below the chart. */
  note?: ReactNode;
  /** Shown in place of an empty chart. */
  empty?: ReactNode;
  /** The chart is inside another panel, without a frame of its own. */
  bare?: boolean;
}

/** View settings of Plot, in addition to the chart's props. */
export interface View {
  log: boolean;
  /** Indexes of series that are not drawn. */
  hidden: ReadonlySet<number>;
  zoom: Range | null;
  onZoom: (range: Range | null) => void;
  /** Charts with the same key share their crosshair. */
  sharedBy: string;
  /** Called with the uPlot object, and with null when it is removed. */
  onPlot: (plot: uPlot | null) => void;
}

const Plot = new Code("plot", () => import("./Plot")).Component;
const WholeWindow = new Code("whole window", () => import("./WholeWindow")).Component;

/** Chart with its title, last values and tools. The first chart loads the library. */
export function Chart(props: ChartProps) {
  const [whole, setWhole] = useState(false);
  return (
    <>
      <Frame {...props} onWhole={() => setWhole(true)} />
      {whole && (
        <Part what="chart" fallback={null}>
          <WholeWindow label={props.title} onClose={() => setWhole(false)}>
            <Frame {...props} bare height={Math.max(240, window.innerHeight - 210)} />
          </WholeWindow>
        </Part>
      )}
    </>
  );
}

function Frame(props: ChartProps & { onWhole?: () => void }) {
  const { title, series, data, height = 200, time = false, xName = "", bare = false, onWhole } = props;
  const { key, zoom, setZoom } = useChartGroup(time ? "time" : xName);
  const [log, setLog] = useState(false);
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set());
  const [plot, setPlot] = useState<uPlot | null>(null);
  const nothing = data !== null && data[0].length === 0;
  const format = props.format ?? plainNumber;
  const told = props.bins ? totalOf : lastOf;
  const last = told(data?.[1]);
  const names = series.map(({ name }) => name);

  function toggle(index: number) {
    const next = new Set(hidden);
    if (!next.delete(index)) next.add(index);
    setHidden(next);
  }
  return (
    <section className={bare ? classes.bare : `card ${classes.panel}`} aria-label={title}>
      <div className={classes.head}>
        <h2 className="section-title">{title}</h2>
        {series.length === 1 && last !== null && (
          <span className={classes.last} data-testid="last-value">
            {format(last)}
          </span>
        )}
        <span className={classes.tools}>
          {zoom && (
            <Button size="compact-xs" variant="light" onClick={() => setZoom(null)}>
              Reset zoom
            </Button>
          )}
          {props.action}
          {data && !nothing && (
            <Tools
              title={title}
              log={log}
              canLog={
                !props.bins &&
                data.slice(1).some((column) => column.some((value) => value !== null && value > 0))
              }
              onLog={() => setLog(!log)}
              onWhole={onWhole}
              onCsv={() =>
                download(
                  new Blob([csvOf([time ? "Time" : xName || "x", ...names], data, xText(props))], {
                    type: "text/csv",
                  }),
                  `${title}.csv`,
                )
              }
              onPng={
                plot && (() => void pictureOf(plot, title).then((file) => download(file, `${title}.png`)))
              }
            />
          )}
        </span>
      </div>
      {series.length > 1 && !nothing && (
        <Legend
          names={names}
          series={series}
          values={names.map((_, index) => told(data?.[index + 1]))}
          format={format}
          hidden={hidden}
          onToggle={toggle}
        />
      )}
      {nothing ? (
        <p className={classes.note}>{props.empty ?? "Nothing yet."}</p>
      ) : data === null ? (
        <Skeleton height={height} />
      ) : (
        <Part what="chart" fallback={<Skeleton height={height} />}>
          <Plot
            {...props}
            data={data}
            view={{ log, hidden, zoom, onZoom: setZoom, sharedBy: key, onPlot: setPlot }}
          />
        </Part>
      )}
      {props.note && <p className={classes.note}>{props.note}</p>}
    </section>
  );
}

interface LegendProps {
  names: string[];
  series: readonly Series[];
  /** Last value of each line, or sum of each series of bars. */
  values: (number | null)[];
  format: (value: number) => string;
  hidden: ReadonlySet<number>;
  onToggle: (index: number) => void;
}

/** Names and values of the lines. A click hides a line. */
function Legend({ names, series, values, format, hidden, onToggle }: LegendProps) {
  return (
    <ul className={classes.legend} data-testid="legend">
      {names.map((name, index) => {
        const value = values[index] ?? null;
        return (
          <li key={name}>
            <button
              type="button"
              className={classes.entry}
              aria-pressed={!hidden.has(index)}
              title={hidden.has(index) ? "Show this line" : "Hide this line"}
              onClick={() => onToggle(index)}
            >
              <span
                className={classes.chip}
                data-look={series[index]?.dots ? "dots" : series[index]?.dashed ? "dashed" : "line"}
                style={{ color: lookOf(series, index) }}
              />
              <span className={classes.name}>{name}</span>
              <span className={classes.value}>{value === null ? "–" : format(value)}</span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}

interface ToolsProps {
  title: string;
  log: boolean;
  canLog: boolean;
  onLog: () => void;
  onWhole: (() => void) | undefined;
  onCsv: () => void;
  /** null: nothing is drawn yet. */
  onPng: (() => void) | null;
}

function Tools({ title, log, canLog, onLog, onWhole, onCsv, onPng }: ToolsProps) {
  return (
    <>
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon size="sm" variant="subtle" color="gray" aria-label={`Menu of ${title}`}>
            <Icon name="dots" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            disabled={!canLog}
            leftSection={log ? <Icon name="check" size={14} /> : <span className={classes.unchecked} />}
            onClick={onLog}
          >
            Logarithmic axis
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item leftSection={<Icon name="download" size={14} />} onClick={onCsv}>
            Download CSV
          </Menu.Item>
          <Menu.Item
            disabled={!onPng}
            leftSection={<Icon name="photo" size={14} />}
            onClick={onPng ?? undefined}
          >
            Download PNG
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {onWhole && (
        <Tooltip label="Full screen">
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            aria-label={`${title} in full screen`}
            onClick={onWhole}
          >
            <Icon name="maximize" size={14} />
          </ActionIcon>
        </Tooltip>
      )}
    </>
  );
}
