import { plural } from "../../format/number";
import { duration, when } from "../../format/time";
import { type Bar, type Lane, type Place, STATES, stateOf } from "./lanes";
import classes from "./TimelineCanvas.module.css";

interface Props {
  place: Place & { x: number; y: number };
  lanes: readonly Lane[];
  now: number;
  box: { width: number; height: number };
  top: number;
}

/** Tooltip of a bar. */
export function Tip({ place, lanes, now, box, top }: Props) {
  const { bar, row, x, y } = place;
  const lane = lanes[row];
  if (!lane) return null;
  const left = Math.min(x + 14, box.width - 250);
  const below = y + 120 < box.height;
  return (
    <div
      className={classes.tip}
      style={{ left: Math.max(4, left), top: top + (below ? y + 14 : Math.max(0, y - 116)) }}
      role="tooltip"
      aria-live="polite"
    >
      <strong>{bar.name}</strong>
      {bar.attempt === 0 ? (
        <Waiting bar={bar} now={now} />
      ) : (
        <>
          <span>
            {lane.host} GPU {lane.index}
            {bar.gpus > 1 && `, one of ${bar.gpus}`} · attempt {bar.attempt}
            {bar.user && ` · ${bar.user}`}
          </span>
          <span>
            {when(bar.claimed, now, true)}, {duration(((bar.finished ?? now) - bar.claimed) / 1000)}
            {bar.finished === null ? " so far" : ` · ${STATES[stateOf(bar)]}`}
          </span>
          {bar.expected !== null && <span>expected to end {when(bar.expected, now)}</span>}
        </>
      )}
    </div>
  );
}

function Waiting({ bar, now }: { bar: Bar; now: number }) {
  return (
    <>
      <span>
        {plural(bar.gpus, "GPU")}
        {bar.user && ` · ${bar.user}`} · waiting {duration((now - bar.claimed) / 1000)}
      </span>
      {bar.started !== null && (
        <span>
          expected to start {when(Math.max(now, bar.started), now)}
          {bar.expected !== null && ` and to end ${when(bar.expected, now)}`}
        </span>
      )}
    </>
  );
}
