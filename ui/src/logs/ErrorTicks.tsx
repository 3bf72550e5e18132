import type { LogBuffer } from "./LogBuffer";
import classes from "./LogView.module.css";

/** More can't be told apart. */
const MOST = 120;

/** Where in the log its errors are, beside the scroll bar. Decoration: the button of errors leads to each. */
export function ErrorTicks({ log, errors }: { log: LogBuffer; errors: readonly number[] }) {
  const places = new Set(
    errors.map((number) => Math.floor((MOST * (number - log.dropped)) / Math.max(1, log.count))),
  );
  return (
    <div className={classes.ticks} data-testid="error-ticks" aria-hidden>
      {[...places].map((place) => (
        <i key={place} style={{ top: `${(100 * (place + 0.5)) / MOST}%` }} />
      ))}
    </div>
  );
}
