import { memo } from "react";
import { Link } from "react-router";
import type { Sweep } from "../../api/types";
import { Elapsed, When } from "../../format/Elapsed";
import { plural } from "../../format/number";
import { canCancel, isOver } from "../../jobs/states";
import { shownCounts } from "../../sweeps/runs";
import { SweepBadge } from "../../sweeps/SweepBadge";
import { type Group, spanOf } from "./groups";
import classes from "./JobsTable.module.css";
import { Tick } from "./Tick";

interface Props {
  group: Group;
  /** null: older than the sweeps fetched. */
  sweep: Sweep | null;
  index: number;
  measure: (row: HTMLTableRowElement | null) => void;
  selected: ReadonlySet<string>;
  onToggle: (ids: string[]) => void;
  onOpen: (sweep: string) => void;
}

/** Collapsible row for the runs of a sweep. */
export const SweepRow = memo(function SweepRow(props: Props) {
  const { group, sweep, index, measure, selected, onToggle, onOpen } = props;
  const { jobs, open } = group;
  const name = sweep?.name ?? jobs[0]?.name.replace(/-\d+$/, "") ?? group.sweep;
  const { start, end } = spanOf(jobs);
  const chosen = jobs.filter((job) => selected.has(job.id)).length;
  const held = jobs.reduce((sum, job) => sum + job.gpus.length, 0);
  const over = jobs.filter((job) => isOver(job.state)).length;
  const told = sweep ? shownCounts(sweep) : `${plural(jobs.length, "run")}: ${over} ended`;
  return (
    <tr ref={measure} data-index={index} aria-rowindex={index + 2} data-testid={`sweep-${group.sweep}`}>
      <td className={classes.check}>
        <Tick
          label={`Select the runs of ${name}`}
          checked={chosen > 0 && chosen === jobs.length}
          partly={chosen > 0 && chosen < jobs.length}
          disabled={!jobs.some((job) => canCancel(job.state)) && chosen === 0}
          onChange={() => onToggle(jobs.map((job) => job.id))}
        />
      </td>
      <td className={classes.state}>{sweep && <SweepBadge state={sweep.state} />}</td>
      <td className={classes.name}>
        <button
          type="button"
          className={classes.fold}
          aria-expanded={open}
          aria-label={`Runs of ${name}`}
          onClick={() => onOpen(group.sweep)}
        >
          {open ? "▾" : "▸"}
        </button>{" "}
        <Link to={`/sweeps/${group.sweep}`} title={`${name}: a sweep (${group.sweep})`}>
          {name}
        </Link>
      </td>
      <td className={classes.user}>{jobs[0]?.user}</td>
      <td className={classes.gpus}>{held || "–"}</td>
      <td className={classes.progress} />
      <td className={classes.time}>{start ? <When at={start} /> : "–"}</td>
      <td className={`${classes.time} ${classes.finished}`}>{end ? <When at={end} /> : "–"}</td>
      <td className={classes.duration}>
        <Elapsed start={start} end={end} />
      </td>
      <td className={classes.why} title={told}>
        {told}
      </td>
    </tr>
  );
});
