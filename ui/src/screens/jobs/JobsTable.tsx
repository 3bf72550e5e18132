import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Job, JobSort, Sweep } from "../../api/types";
import { whyOf } from "../../jobs/failures";
import { nextSort, type SortColumn } from "../../jobs/filters";
import { canCancel } from "../../jobs/states";
import { useScreenKeys } from "../../shell/useShortcuts";
import { type Entry, entriesOf, jobsOf, keyOf } from "./groups";
import { JobRow } from "./JobRow";
import classes from "./JobsTable.module.css";
import { SweepRow } from "./SweepRow";
import { Tick } from "./Tick";

interface Props {
  rows: Job[];
  selected: ReadonlySet<string>;
  /** Whether the user may cancel a job. */
  mayChange: (job: Job) => boolean;
  onSelect: (change: (before: ReadonlySet<string>) => ReadonlySet<string>) => void;
  /** Known sweeps of the jobs, by id. */
  sweeps: ReadonlyMap<string, Sweep>;
  sort: JobSort | "";
  onSort: (sort: JobSort | "") => void;
  /** Called when the last rows come into view. */
  onEnd: () => void;
}

const ROW_PX = 36;
const AHEAD = 30;

const HEADS: { name: string; sort?: SortColumn; className?: string }[] = [
  { name: "State", sort: "state", className: classes.state },
  { name: "Name", sort: "name", className: classes.name },
  { name: "User", sort: "user", className: classes.user },
  { name: "GPUs", sort: "gpus", className: classes.gpus },
  { name: "Progress", className: classes.progress },
  { name: "Started", sort: "started", className: classes.time },
  { name: "Finished", sort: "finished", className: `${classes.time} ${classes.finished}` },
  { name: "Duration", sort: "duration", className: classes.duration },
  { name: "Why", className: classes.why },
];

/** Table of jobs. Only the rows in view, and some around them, are in the document. */
export function JobsTable({ rows, selected, mayChange, onSelect, sweeps, sort, onSort, onEnd }: Props) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  // Another order serves to compare jobs, so each job then has its own row.
  const entries = useMemo(
    () => (sort === "" ? entriesOf(rows, open) : rows.map((job) => ({ job, inGroup: false }) as Entry)),
    [rows, open, sort],
  );
  const choosable = rows.filter((job) => canCancel(job.state) && mayChange(job));
  const count = choosable.filter((job) => selected.has(job.id)).length;
  const frame = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: content above changes only with the rows.
  useLayoutEffect(() => {
    setTop((frame.current?.getBoundingClientRect().top ?? 0) + window.scrollY);
  }, [rows.length > 0]);

  const list = useWindowVirtualizer({
    count: entries.length,
    estimateSize: () => ROW_PX,
    overscan: 8,
    scrollMargin: top,
    // Covered by the page header and the table header.
    scrollPaddingStart: 110,
    scrollPaddingEnd: 40,
    getItemKey: (index) => {
      const entry = entries[index];
      return entry ? keyOf(entry) : index;
    },
  });
  const shown = list.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= entries.length - AHEAD) onEnd();
  }, [last, entries.length, onEnd]);

  const toggle = useCallback(
    (id: string) =>
      onSelect((before) => {
        const next = new Set(before);
        if (!next.delete(id)) next.add(id);
        return next;
      }),
    [onSelect],
  );
  const toggleAll = useCallback(
    (ids: string[]) =>
      onSelect((before) => {
        const next = new Set(before);
        const all = ids.every((id) => next.has(id));
        for (const id of ids) {
          if (all) next.delete(id);
          else next.add(id);
        }
        return next;
      }),
    [onSelect],
  );
  const fold = useCallback(
    (sweep: string) =>
      setOpen((before) => {
        const next = new Set(before);
        if (!next.delete(sweep)) next.add(sweep);
        return next;
      }),
    [],
  );
  useRowKeys(entries, frame, (index) => list.scrollToIndex(index), toggleAll);
  const above = (shown[0]?.start ?? top) - top;
  const below = list.getTotalSize() - ((shown.at(-1)?.end ?? top) - top);

  return (
    <div ref={frame} className={`card ${classes.frame}`}>
      <table className={classes.table} aria-rowcount={entries.length + 1}>
        <thead>
          <tr>
            <th className={classes.check}>
              <Tick
                label="Select all jobs that you can cancel"
                disabled={choosable.length === 0}
                checked={count > 0 && count === choosable.length}
                partly={count > 0 && count < choosable.length}
                onChange={() =>
                  onSelect(() => new Set(count === choosable.length ? [] : choosable.map((job) => job.id)))
                }
              />
            </th>
            {HEADS.map(({ name, sort: column, className }) => (
              <th key={name} className={className} aria-sort={column && ariaSort(column, sort)}>
                {column ? (
                  <button
                    type="button"
                    className={classes.sort}
                    onClick={() => onSort(nextSort(column, sort))}
                  >
                    {name}
                    <span aria-hidden>{sort === column ? " ↑" : sort === `-${column}` ? " ↓" : ""}</span>
                  </button>
                ) : (
                  name
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Space px={above} />
          {shown.map(({ index, key }) => {
            const entry = entries[index];
            if (!entry) return null;
            if (entry.group) {
              return (
                <SweepRow
                  key={key}
                  group={entry.group}
                  sweep={sweeps.get(entry.group.sweep) ?? null}
                  index={index}
                  measure={list.measureElement}
                  selected={selected}
                  onToggle={toggleAll}
                  onOpen={fold}
                />
              );
            }
            return (
              <JobRow
                key={key}
                job={entry.job}
                index={index}
                measure={list.measureElement}
                selected={selected.has(entry.job.id)}
                onToggle={toggle}
                why={whyOf(entry.job)}
                inGroup={entry.inGroup}
              />
            );
          })}
          <Space px={below} />
        </tbody>
      </table>
    </div>
  );
}

function ariaSort(column: SortColumn, sort: JobSort | ""): "ascending" | "descending" | "none" {
  return sort === column ? "ascending" : sort === `-${column}` ? "descending" : "none";
}

/** Empty space in place of rows that are not drawn. */
function Space({ px }: { px: number }) {
  return px > 0 ? <tr aria-hidden className={classes.space} style={{ height: px }} /> : null;
}

/** Handle the keys j and k (move through rows) and x (select the job). The focus moves to the job's link, so that
 * Enter opens it. */
function useRowKeys(
  entries: Entry[],
  frame: React.RefObject<HTMLElement | null>,
  bring: (index: number) => void,
  toggle: (ids: string[]) => void,
) {
  // The target row may be drawn only after scrolling.
  const wanted = useRef<number | null>(null);
  const linkOf = (index: number) =>
    frame.current?.querySelector<HTMLElement>(`tr[data-index="${index}"] a`) ?? null;
  useEffect(() => {
    if (wanted.current === null) return;
    const link = linkOf(wanted.current);
    if (!link) return;
    wanted.current = null;
    link.focus({ preventScroll: true });
  });
  function present(): number {
    const row = document.activeElement?.closest<HTMLElement>("tr[data-index]");
    return row && frame.current?.contains(row) ? Number(row.dataset.index) : -1;
  }
  function go(by: number) {
    if (entries.length === 0) return;
    const from = wanted.current ?? present();
    const to = Math.min(entries.length - 1, Math.max(0, from + by));
    bring(to);
    const link = linkOf(to);
    wanted.current = link ? null : to;
    link?.focus({ preventScroll: true });
  }
  useScreenKeys({
    j: () => go(1),
    k: () => go(-1),
    x: () => {
      const entry = entries[present()];
      if (entry) toggle(jobsOf(entry).map((job) => job.id));
    },
  });
}
