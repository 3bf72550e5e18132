import { useElementSize } from "@mantine/hooks";
import { useState } from "react";
import { useNavigate } from "react-router";
import { fourDigits } from "../../../sweeps/runs";
import { Mark, type Shape } from "../Mark";
import { numberAxis } from "../numberAxis";
import plot from "../Plots.module.css";
import { shownConfiguration, shownMarks, type TrialRow } from "./trials";

const [LEAST_WIDE, HIGH] = [300, 320];
const [ABOVE, BELOW, LEFT, RIGHT] = [26, 46, 64, 28];
/** Distance of points from the axes. */
const INSET = 12;
const TICKS = 6;

const axisOf = (values: number[]) => numberAxis(values, TICKS);

type Measured = TrialRow & { run_time: number; cost: number };

const isMeasured = (trial: TrialRow): trial is Measured => trial.run_time !== null && trial.cost !== null;

/** Time against cost of all successful trials, with the Pareto curve. No trial beats a trial on the curve in both. */
export function CurvePlot({ trials }: { trials: readonly TrialRow[] }) {
  const [pointed, setPointed] = useState<Measured | null>(null);
  const navigate = useNavigate();
  const { ref, width } = useElementSize();
  const wide = Math.max(LEAST_WIDE, width);
  const shown = trials.filter(isMeasured);
  const best = shown.find((trial) => trial.best);
  const told = pointed ?? best;
  const times = axisOf(shown.map((trial) => trial.run_time));
  const costs = axisOf(shown.map((trial) => trial.cost));
  const right = wide - RIGHT;
  const bottom = HIGH - BELOW;
  const x = (at: number) => LEFT + INSET + at * (right - LEFT - 2 * INSET);
  const y = (at: number) => bottom - INSET - at * (bottom - ABOVE - 2 * INSET);
  const curve = shown.filter((trial) => trial.curved).toSorted((a, b) => a.run_time - b.run_time);
  // Trials on the curve are drawn last, on top of the others.
  const order = shown.toSorted((a, b) => rank(a) - rank(b));
  return (
    <>
      <p className={plot.told} role="status">
        {told && `${pointed ? `Trial ${told.number}` : `Best: trial ${told.number}`}: ${saidOf(told)}`}
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard. */}
      <div className={plot.scroll} ref={ref} tabIndex={0}>
        <svg
          width={wide}
          height={HIGH}
          className={plot.drawing}
          role="img"
          aria-label={`Time against cost of ${shown.length} trials, ${curve.length} of them on the Pareto front; values are in the table below`}
          onPointerLeave={() => setPointed(null)}
        >
          <g className={plot.axes}>
            {times.ticks.map(({ at, text }) => (
              <g key={text}>
                <line x1={x(at)} x2={x(at)} y1={ABOVE} y2={bottom} />
                <text x={x(at)} y={bottom + 16} textAnchor="middle">
                  {text}
                </text>
              </g>
            ))}
            {costs.ticks.map(({ at, text }) => (
              <g key={text}>
                <line x1={LEFT} x2={right} y1={y(at)} y2={y(at)} />
                <text x={LEFT - 6} y={y(at) + 4} textAnchor="end">
                  {text}
                </text>
              </g>
            ))}
            <text x={right} y={HIGH - 8} textAnchor="end" className={plot.name}>
              time, s
            </text>
            <text x={LEFT - 6} y={14} textAnchor="end" className={plot.name}>
              cost
            </text>
          </g>
          <path
            className={plot.curve}
            d={curve
              .map(
                ({ run_time, cost }, index) =>
                  `${index > 0 ? "L" : "M"}${x(times.place(run_time)).toFixed(1)} ${y(costs.place(cost)).toFixed(1)}`,
              )
              .join("")}
          />
          {order.map((trial) => {
            const at = { x: x(times.place(trial.run_time)), y: y(costs.place(trial.cost)) };
            const label = trial.best || trial.knee ? shownMarks(trial) : "";
            const left = at.x > right - 90;
            return (
              // biome-ignore lint/a11y/noStaticElementInteractions: the table has a link for each trial.
              <g
                key={trial.number}
                className={plot.point}
                data-trial={trial.number}
                data-curved={trial.curved}
                data-pointed={pointed?.number === trial.number}
                onPointerEnter={() => setPointed(trial)}
                onClick={() => trial.job && navigate(`/jobs/${trial.job}`)}
              >
                <circle cx={at.x} cy={at.y} r={11} className={plot.near} />
                <Mark shape={shapeOf(trial)} {...at} />
                {label && (
                  <text x={at.x + (left ? -12 : 12)} y={at.y - 9} textAnchor={left ? "end" : "start"}>
                    {label}
                  </text>
                )}
              </g>
            );
          })}
        </svg>
      </div>
      <p className={plot.note}>
        Filled circles and the line: trials that no other one beats in both time and cost. Hollow: all others.
        Star: the best by the goal. Diamond: the knee; beyond it, less time costs much more. Cost is in
        gpu_prices if set, otherwise in GPU-seconds.
      </p>
    </>
  );
}

const rank = (trial: TrialRow) => (trial.best ? 3 : trial.knee ? 2 : trial.curved ? 1 : 0);

const shapeOf = (trial: TrialRow): Shape => (trial.best ? "star" : trial.knee ? "diamond" : "circle");

const saidOf = (trial: Measured) =>
  [
    shownConfiguration(trial),
    `${fourDigits(trial.run_time)} s`,
    `cost ${fourDigits(trial.cost)}`,
    shownMarks(trial),
  ]
    .filter(Boolean)
    .join(", ");
