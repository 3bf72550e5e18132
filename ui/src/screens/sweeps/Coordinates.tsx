import { useElementSize } from "@mantine/hooks";
import { useState } from "react";
import { useNavigate } from "react-router";
import type { Run, SweepDetail } from "../../api/types";
import { shownValue } from "../../sweeps/runs";
import classes from "./Coordinates.module.css";
import { type Axis, axisOf, merits, metricAxis } from "./coordinates";

const [LEAST_WIDE, HIGH] = [620, 280];
const [ABOVE, BELOW, ASIDE] = [34, 12, 70];

/** Parallel coordinates: one line per run through its parameters and result. Better runs have a stronger colour. */
export function Coordinates({ sweep }: { sweep: SweepDetail }) {
  const [pointed, setPointed] = useState<Run | null>(null);
  const navigate = useNavigate();
  const { ref, width } = useElementSize(); // not a scaled image, so its text has the normal size
  const wide = Math.max(LEAST_WIDE, width);
  const runs = sweep.table;
  if (!runs.some((run) => run.best !== null)) return null;
  const axes = [...sweep.parameters.map((name) => axisOf(name, runs)), metricAxis(sweep.metric.name, runs)];
  const merit = merits(runs, sweep.metric.goal);
  const x = (index: number) => ASIDE + (index * (wide - 2 * ASIDE)) / Math.max(1, axes.length - 1);
  const y = (at: number) => ABOVE + (1 - at) * (HIGH - ABOVE - BELOW);
  // The best runs are drawn last, on top of the others.
  const order = runs.map((_, index) => index).toSorted((a, b) => (merit[a] ?? -1) - (merit[b] ?? -1));
  const told = pointed ?? sweep.best;
  return (
    <section className={`card ${classes.panel}`} aria-label="Parameters and results">
      <div className={classes.head}>
        <h2 className="section-title">Parameters and results</h2>
        <p className={classes.told} role="status">
          {told && `${pointed ? "Run" : "Best: run"} ${told.number}: ${saidOf(told, sweep.metric.name)}`}
        </p>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard. */}
      <div className={classes.scroll} ref={ref} tabIndex={0}>
        <svg
          width={wide}
          height={HIGH}
          className={classes.drawing}
          role="img"
          aria-label={`${runs.length} runs by ${axes.map((axis) => axis.name).join(", ")}; values are in the table below`}
          onPointerLeave={() => setPointed(null)}
        >
          {order.map((index) => {
            const run = runs[index];
            if (!run) return null;
            const line = path(axes, run, x, y);
            const best = run.number === sweep.best?.number;
            return (
              // biome-ignore lint/a11y/noStaticElementInteractions: the table has a link for each run.
              <g
                key={run.number}
                className={classes.run}
                data-run={run.number}
                data-best={best}
                data-pointed={pointed?.number === run.number}
                data-known={merit[index] !== null}
                style={{ "--merit": merit[index] ?? 0 } as React.CSSProperties}
                onPointerEnter={() => setPointed(run)}
                onClick={() => run.job && navigate(`/jobs/${run.job}`)}
              >
                <path d={line} className={classes.near} />
                <path d={line} className={classes.line} />
              </g>
            );
          })}
          {axes.map((axis, index) => (
            <AxisLine key={axis.name} axis={axis} x={x(index)} y={y} last={index === axes.length - 1} />
          ))}
        </svg>
      </div>
    </section>
  );
}

function AxisLine({ axis, x, y, last }: { axis: Axis; x: number; y: (at: number) => number; last: boolean }) {
  return (
    <g className={classes.axis}>
      <line x1={x} x2={x} y1={y(1)} y2={y(0)} />
      <text x={x} y={16} textAnchor="middle" className={classes.name}>
        {short(axis.name, 18)}
        <title>{axis.name}</title>
      </text>
      {axis.ticks.map(({ at, text }) => (
        <text
          key={text}
          x={x + (last ? 7 : -7)}
          y={y(at) + 4}
          textAnchor={last ? "start" : "end"}
          className={classes.tick}
        >
          {short(text, 9)}
          <title>{text}</title>
        </text>
      ))}
    </g>
  );
}

const short = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const saidOf = (run: Run, metric: string) =>
  [
    ...Object.entries(run.params).map(([name, value]) => `${name} ${short(String(value), 24)}`),
    run.best === null ? run.state : `best ${metric} ${shownValue(run.best)}`,
  ].join(", ");

/** Return the line of a run through the axes. It has a gap where the run has no value. */
function path(axes: readonly Axis[], run: Run, x: (index: number) => number, y: (at: number) => number) {
  let line = "";
  let drawing = false;
  for (const [index, axis] of axes.entries()) {
    const at = axis.place(run);
    if (at !== null) line += `${drawing ? "L" : "M"}${x(index).toFixed(1)} ${y(at).toFixed(1)}`;
    drawing = at !== null;
  }
  return line;
}
