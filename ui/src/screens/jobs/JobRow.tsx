import { memo } from "react";
import { Link } from "react-router";
import type { Job } from "../../api/types";
import { Elapsed, When } from "../../format/Elapsed";
import { plainSentence } from "../../format/number";
import { neverRuns } from "../../jobs/Expected";
import { Sentence } from "../../jobs/Sentence";
import { StateBadge } from "../../jobs/StateBadge";
import { withNames } from "../../jobs/sentence";
import { isOver } from "../../jobs/states";
import classes from "./JobsTable.module.css";
import { Tick } from "./Tick";

interface Props {
  job: Job;
  /** Index in the list. */
  index: number;
  /** Called with the row's element to measure its height. */
  measure: (row: HTMLTableRowElement | null) => void;
  selected: boolean;
  onToggle: (id: string) => void;
  why: string;
  /** The row is below its sweep's row. It shows its parameters instead of its name. */
  inGroup: boolean;
}

export const JobRow = memo(function JobRow(props: Props) {
  const { job, index, measure, selected, onToggle, why, inGroup } = props;
  const told = withNames(plainSentence(why), job.names);
  const tries = Object.entries(job.params ?? {}).map(([name, value]) => `${name}=${value}`);
  return (
    <tr ref={measure} data-index={index} aria-rowindex={index + 2} data-testid={`job-${job.id}`}>
      <td className={classes.check}>
        <Tick label={`Select ${job.name}`} checked={selected} onChange={() => onToggle(job.id)} />
      </td>
      <td className={classes.state}>
        <StateBadge state={job.state} />
      </td>
      <td className={classes.name} data-in-group={inGroup}>
        <Link to={`/jobs/${job.id}`} title={`${job.name} (${job.id}, ${job.container_image})`}>
          {inGroup && tries.length > 0 ? tries.join(" ") : job.name}
        </Link>
      </td>
      <td className={classes.user} title={job.user}>
        {job.user}
      </td>
      <td className={classes.gpus}>
        <Gpus job={job} />
      </td>
      <td className={classes.progress}>
        {job.progress !== null && !isOver(job.state) && <Bar share={job.progress} />}
      </td>
      <td className={classes.time}>
        {job.started_at ? (
          <When at={job.started_at} />
        ) : neverRuns(job.eta) ? (
          "can't run"
        ) : (
          <Expected at={job.eta?.start} what="start" />
        )}
      </td>
      <td className={`${classes.time} ${classes.finished}`}>
        {job.finished_at ? <When at={job.finished_at} /> : <Expected at={job.eta?.end} what="end" />}
      </td>
      <td className={classes.duration} data-empty={job.started_at === null}>
        <Elapsed start={job.started_at} end={job.finished_at} />
      </td>
      <td className={classes.why} title={told} data-failed={job.failure !== null}>
        <Sentence text={why} />
      </td>
    </tr>
  );
});

/** Predicted time, shown pale. */
function Expected({ at, what }: { at: string | null | undefined; what: string }) {
  if (!at) return "–";
  return (
    <span className={classes.expected} title={`Expected to ${what} then.`}>
      ~ <When at={at} />
    </span>
  );
}

/** GPUs that the job holds and where, or that it requires. */
function Gpus({ job }: { job: Job }) {
  const held = job.gpus.length;
  const hosts = Object.keys(job.allocation);
  if (held === 0) {
    return (
      <>
        {job.required_gpus}
        <span className={classes.unit}> {job.required_gpus === 1 ? "GPU" : "GPUs"}</span>
      </>
    );
  }
  return (
    <span title={hosts.join(", ")}>
      {held === job.required_gpus ? held : `${held} of ${job.required_gpus}`}
      <span className={classes.unit}> {job.required_gpus === 1 ? "GPU" : "GPUs"}</span>{" "}
      <span className={classes.dim}>
        {hosts[0]}
        {hosts.length > 1 && ` +${hosts.length - 1}`}
      </span>
    </span>
  );
}

function Bar({ share }: { share: number }) {
  const percent = Math.floor(share * 100);
  return (
    <span className={classes.meter}>
      <span className={classes.track} aria-hidden>
        <span className={classes.done} style={{ width: `${percent}%` }} />
      </span>
      {percent}%
    </span>
  );
}
