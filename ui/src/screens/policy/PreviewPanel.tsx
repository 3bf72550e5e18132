import { Text } from "@mantine/core";
import { Link } from "react-router";
import type { Change, Preview } from "../../api/types";
import { clock } from "../../format/clock";
import { amount, count, plural } from "../../format/number";
import { duration, when } from "../../format/time";
import { Sentence } from "../../jobs/Sentence";
import { Icon, type IconName } from "../../shell/Icon";
import classes from "./PreviewPanel.module.css";
import { compared, gpusOf, whyNone } from "./preview";

const ICONS: Record<Change["action"], IconName> = {
  start: "play",
  grow: "plus",
  shrink: "minus",
  move: "resize",
  wait: "clock",
  pause: "pause",
};

const MOST = 50;

/** Preview of a policy choice: its effects before it takes effect. */
export function PreviewPanel({ preview }: { preview: Preview }) {
  const { now, then, changes } = preview;
  return (
    <section className={classes.panel} aria-label="Preview" data-testid="preview">
      <h2 className="section-title">
        What {preview.algorithm}
        {preview.metric !== "default" && ` · ${preview.metric}`} would change
      </h2>
      <div className={classes.scroll}>
        <table className={classes.totals}>
          <thead>
            <tr>
              <th scope="col">From now on</th>
              <th scope="col">current</th>
              <th scope="col">then</th>
              <th scope="col">change</th>
            </tr>
          </thead>
          <tbody>
            <Row
              name="Mean completion time"
              now={now.mean_completion}
              then={then.mean_completion}
              show={duration}
            />
            <Row name="Median wait" now={now.median_wait} then={then.median_wait} show={duration} />
            <Row name="p90 wait" now={now.p90_wait} then={then.p90_wait} show={duration} />
            <Row name="GPU-hours" now={now.gpu_hours} then={then.gpu_hours} show={amount} />
            <Row name="Host-hours" now={now.host_hours} then={then.host_hours} show={amount} />
            <Row name="Jobs that end by then" now={now.ended} then={then.ended} show={String} neutral />
          </tbody>
        </table>
      </div>
      <Text size="sm" c="dimmed">
        {bounds(preview)}
      </Text>
      <h3 className={classes.subtitle}>
        Changes now:{" "}
        {changes.length === 0
          ? "nothing"
          : `${plural(changes.length, "job")}; ${preview.unchanged === 1 ? "1 stays unchanged" : `${count(preview.unchanged)} stay unchanged`}`}
      </h3>
      <ul className={classes.changes}>
        {changes.slice(0, MOST).map((change) => (
          <li key={change.job}>
            <span className={classes.action} data-action={change.action}>
              <Icon name={ICONS[change.action]} size={13} /> {change.action}
            </span>
            <Link to={`/jobs/${change.job}`} className={classes.job}>
              {change.name}
            </Link>
            <span className={classes.gpus}>
              {gpusOf(change.before)} → {plural(gpusOf(change.after), "GPU")}
            </span>
            {change.reason && (
              <span className={classes.reason}>
                <Sentence text={change.reason} />
              </span>
            )}
          </li>
        ))}
      </ul>
      {changes.length > MOST && (
        <Text size="sm" c="dimmed">
          and {count(changes.length - MOST)} more
        </Text>
      )}
    </section>
  );
}

interface RowProps {
  name: string;
  now: number | null;
  then: number | null;
  show: (value: number) => string;
  /** Neither a higher nor a lower value is better. */
  neutral?: boolean;
}

function Row({ name, now, then, show, neutral = false }: RowProps) {
  const change = compared(now, then);
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{now === null ? "–" : show(now)}</td>
      <td>{then === null ? "–" : show(then)}</td>
      <td data-better={neutral ? undefined : change.better}>{change.text}</td>
    </tr>
  );
}

/** Return the scope of the figures. */
function bounds({ until, then }: Preview): string {
  const why = whyNone(then, "");
  return `${why && `${why}. `}Until ${when(until, clock.now())}; jobs that have not ended by then count until then. Future submissions are not included.`;
}
