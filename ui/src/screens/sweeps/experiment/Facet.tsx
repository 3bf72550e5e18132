import type { ReactNode } from "react";
import type { NumberAxis } from "../numberAxis";
import plot from "../Plots.module.css";
import type { Level } from "./results";

const HIGH = 210;
const [LEAST_WIDE, LEVEL_PX] = [290, 64];
const [ABOVE, BELOW, LEFT, RIGHT] = [10, 40, 58, 14];
const LETTER_PX = 7;
/** Distance of points from the axis. */
const INSET = 6;

interface Place {
  /** Position of the level with this index. */
  x: (index: number) => number;
  y: (value: number) => number;
  /** Distance from one level to the next. */
  step: number;
  left: number;
  right: number;
}

interface Props {
  title: string;
  /** Description with values, for screen readers. */
  label: string;
  factor: string;
  levels: readonly Level[];
  axis: NumberAxis;
  /** Shown below the drawing. */
  legend?: ReactNode;
  children: (place: Place) => ReactNode;
}

/** Small chart of a response above the levels of a factor. */
export function Facet({ title, label, factor, levels, axis, legend, children }: Props) {
  const wide = Math.max(LEAST_WIDE, LEFT + RIGHT + levels.length * LEVEL_PX);
  const [right, bottom] = [wide - RIGHT, HIGH - BELOW];
  const step = (right - LEFT) / Math.max(1, levels.length);
  const x = (index: number) => LEFT + (index + 0.5) * step;
  const at = (share: number) => bottom - INSET - share * (bottom - ABOVE - 2 * INSET);
  return (
    <figure className={plot.facet}>
      <figcaption>{title}</figcaption>
      <svg width={wide} height={HIGH} className={plot.drawing} role="img" aria-label={label}>
        <g className={plot.axes}>
          {axis.ticks.map((tick) => (
            <g key={tick.text}>
              <line x1={LEFT} x2={right} y1={at(tick.at)} y2={at(tick.at)} />
              <text x={LEFT - 6} y={at(tick.at) + 4} textAnchor="end">
                {tick.text}
              </text>
            </g>
          ))}
          {levels.map((level, index) => (
            <text key={String(level)} x={x(index)} y={bottom + 16} textAnchor="middle">
              {cut(String(level), Math.max(3, Math.floor(step / LETTER_PX)))}
              <title>{String(level)}</title>
            </text>
          ))}
          <text x={right} y={HIGH - 6} textAnchor="end" className={plot.name}>
            {cut(factor, Math.floor((right - LEFT) / LETTER_PX))}
          </text>
        </g>
        {children({ x, y: (value) => at(axis.place(value)), step, left: LEFT, right })}
      </svg>
      {legend}
    </figure>
  );
}

const cut = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Row of facets that scrolls if it is too wide. */
export function Facets({ children }: { children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard.
    <div className={plot.facets} tabIndex={0}>
      {children}
    </div>
  );
}

/** Return the SVG path of a line through points. */
export const lineOf = (points: readonly (readonly [number, number])[]) =>
  points.map(([x, y], index) => `${index > 0 ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
