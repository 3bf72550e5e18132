import classes from "./Sparkline.module.css";

const [WIDE, HIGH] = [72, 20];

interface Props {
  /** Values at equal intervals; null: not measured. */
  values: readonly (number | null)[];
  /** Values at the bottom and at the top. */
  low: number;
  high: number;
}

/** Small line of the last minutes. The number beside it says what it shows. */
export function Sparkline({ values, low, high }: Props) {
  const x = (index: number) => (index * WIDE) / Math.max(1, values.length - 1);
  const y = (value: number) =>
    HIGH - 1 - Math.min(1, Math.max(0, (value - low) / Math.max(1e-9, high - low))) * (HIGH - 2);
  let line = "";
  for (const [index, value] of values.entries()) {
    if (value === null) continue;
    const joined = index > 0 && values[index - 1] !== null;
    line += `${joined ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
  }
  return (
    <svg className={classes.spark} viewBox={`0 0 ${WIDE} ${HIGH}`} preserveAspectRatio="none" aria-hidden>
      <path d={line} />
    </svg>
  );
}
