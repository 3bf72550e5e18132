import classes from "./LogView.module.css";
import type { Layout } from "./layout";

/** Maximum ticks. More can't be told apart. */
const MOST = 120;

/** Ticks beside the scroll bar at the log's errors. They are decoration: the error button leads to each error. */
export function ErrorTicks({ layout, errors }: { layout: Layout; errors: readonly number[] }) {
  const places = new Set(
    errors.map((number) => Math.floor((MOST * layout.rowOf(number)) / Math.max(1, layout.count))),
  );
  return (
    <div className={classes.ticks} data-testid="error-ticks" aria-hidden>
      {[...places].map((place) => (
        <i key={place} style={{ top: `${(100 * (place + 0.5)) / MOST}%` }} />
      ))}
    </div>
  );
}
