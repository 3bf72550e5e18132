import { Checkbox } from "@mantine/core";
import { memo } from "react";
import { Link } from "react-router";
import type { Job } from "../api/types";
import { Ago, Elapsed } from "../format/Elapsed";
import { plainSentence } from "../format/number";
import { GpuTiles } from "./GpuTiles";
import classes from "./JobsTable.module.css";
import { StateBadge } from "./StateBadge";
import { canCancel, isOver } from "./states";

interface Props {
  job: Job;
  /** Its place in the list. */
  index: number;
  /** Told of the row, so that its height is known. */
  measure: (row: HTMLTableRowElement | null) => void;
  selected: boolean;
  onToggle: (id: string) => void;
}

/** States whose sentence says no more than their name. */
const PLAIN = ["running", "succeeded", "cancelled"];

export const JobRow = memo(function JobRow({ job, index, measure, selected, onToggle }: Props) {
  const choosable = canCancel(job.state);
  const held = job.gpus.length;
  const hosts = Object.keys(job.allocation).join(", ");
  return (
    <tr ref={measure} data-index={index} aria-rowindex={index + 2} data-testid={`job-${job.id}`}>
      <td className={classes.check}>
        {choosable && (
          <Checkbox
            size="xs"
            aria-label={`Select ${job.name}`}
            checked={selected}
            onChange={() => onToggle(job.id)}
          />
        )}
      </td>
      <td className={classes.job}>
        <Link to={`/jobs/${job.id}`} className={classes.name}>
          {job.name}
        </Link>
        <div className={classes.dim}>
          <span className="mono">{job.id}</span> · {job.type}
          {job.user && ` · ${job.user}`}
        </div>
      </td>
      <td className={classes.state}>
        <StateBadge state={job.state} />
        {!PLAIN.includes(job.state) && (
          <div className={`${classes.dim} ${classes.why}`}>
            {job.pull_percent !== null && `${Math.round(job.pull_percent)} % · `}
            {plainSentence(job.message)}
          </div>
        )}
      </td>
      <td>
        <span className={classes.gpus}>
          <GpuTiles held={held} wanted={job.required_gpus} />
          <span>
            {held > 0 || isOver(job.state) ? held || job.required_gpus : `0 of ${job.required_gpus}`}
          </span>
        </span>
        {hosts && <div className={classes.dim}>{hosts}</div>}
      </td>
      <td className={classes.wide}>
        <div className={`mono ${classes.image}`} title={job.container_image}>
          {job.container_image}
        </div>
      </td>
      <td className={classes.wide}>
        <Ago at={job.submitted_at} />
      </td>
      <td className={classes.duration}>
        <Elapsed start={job.started_at} end={job.finished_at} />
      </td>
    </tr>
  );
});
