import { Checkbox } from "@mantine/core";
import type { Job } from "../api/types";
import { JobRow } from "./JobRow";
import classes from "./JobsTable.module.css";
import { canCancel } from "./states";

interface Props {
  rows: Job[];
  selected: ReadonlySet<string>;
  onSelect: (ids: ReadonlySet<string>) => void;
}

export function JobsTable({ rows, selected, onSelect }: Props) {
  const choosable = rows.filter((job) => canCancel(job.state));
  const count = choosable.filter((job) => selected.has(job.id)).length;

  function toggle(id: string) {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect(next);
  }

  return (
    <div className={`card ${classes.frame}`}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th className={classes.check}>
              <Checkbox
                size="xs"
                aria-label="Select all jobs that can be cancelled"
                disabled={choosable.length === 0}
                checked={count > 0 && count === choosable.length}
                indeterminate={count > 0 && count < choosable.length}
                onChange={() =>
                  onSelect(new Set(count === choosable.length ? [] : choosable.map((job) => job.id)))
                }
              />
            </th>
            <th>Job</th>
            <th>State</th>
            <th>GPUs</th>
            <th className={classes.wide}>Image</th>
            <th className={classes.wide}>Submitted</th>
            <th className={classes.duration}>Duration</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((job) => (
            <JobRow key={job.id} job={job} selected={selected.has(job.id)} onToggle={() => toggle(job.id)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}
