import { Checkbox } from "@mantine/core";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { Job } from "../api/types";
import { JobRow } from "./JobRow";
import classes from "./JobsTable.module.css";
import { canCancel } from "./states";

interface Props {
  rows: Job[];
  selected: ReadonlySet<string>;
  onSelect: (change: (before: ReadonlySet<string>) => ReadonlySet<string>) => void;
  /** The last rows come into view. */
  onEnd: () => void;
}

const ROW_PX = 66;
const AHEAD = 20;

/** Only the rows in view, and some around them, are in the document. */
export function JobsTable({ rows, selected, onSelect, onEnd }: Props) {
  const choosable = rows.filter((job) => canCancel(job.state));
  const count = choosable.filter((job) => selected.has(job.id)).length;
  const frame = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what stands above changes with the rows, if at all.
  useLayoutEffect(() => {
    setTop((frame.current?.getBoundingClientRect().top ?? 0) + window.scrollY);
  }, [rows.length > 0]);

  const list = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: 8,
    scrollMargin: top,
    getItemKey: (index) => rows[index]?.id ?? index,
  });
  const shown = list.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= rows.length - AHEAD) onEnd();
  }, [last, rows.length, onEnd]);

  const toggle = useCallback(
    (id: string) =>
      onSelect((before) => {
        const next = new Set(before);
        if (!next.delete(id)) next.add(id);
        return next;
      }),
    [onSelect],
  );
  const above = (shown[0]?.start ?? top) - top;
  const below = list.getTotalSize() - ((shown.at(-1)?.end ?? top) - top);

  return (
    <div ref={frame} className={`card ${classes.frame}`}>
      <table className={classes.table} aria-rowcount={rows.length + 1}>
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
                  onSelect(() => new Set(count === choosable.length ? [] : choosable.map((job) => job.id)))
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
          <Space px={above} />
          {shown.map(({ index, key }) => {
            const job = rows[index];
            return (
              job && (
                <JobRow
                  key={key}
                  job={job}
                  index={index}
                  measure={list.measureElement}
                  selected={selected.has(job.id)}
                  onToggle={toggle}
                />
              )
            );
          })}
          <Space px={below} />
        </tbody>
      </table>
    </div>
  );
}

/** Room for the rows that are not there. */
function Space({ px }: { px: number }) {
  return px > 0 ? <tr aria-hidden className={classes.space} style={{ height: px }} /> : null;
}
