import { useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useEffect, useLayoutEffect, useReducer } from "react";
import type { Task } from "../api/types";
import { count as digits } from "../format/number";
import { Divided } from "./Divided";
import type { LogBuffer } from "./LogBuffer";
import { type Columns, LogLine } from "./LogLine";
import type { Search } from "./LogSearch";
import classes from "./LogView.module.css";
import type { Layout } from "./layout";
import { ROW_PX, rowsInView, spaceOf } from "./rows";

const SPARE = 15;
/** Heights of wrapped lines have to be measured, and laid out anew with each line that comes: so many at most. */
export const MOST_WRAPPED = 20_000;

interface Props {
  log: LogBuffer;
  layout: Layout;
  columns: Columns;
  /** What was searched for. */
  search: Search | null;
  /** The number of the line that somebody was led to. */
  marked: number | null;
  /** Changes when somebody is led to that line again. */
  visit: string;
  /** The containers of the job. */
  tasks: readonly Task[];
  scroller: RefObject<HTMLDivElement | null>;
  /** Called after the height has changed. */
  onHeight: () => void;
}

/** What stays the same however rows lie: a row's key, and what it shows. */
function useRows({ log, layout, columns, search, marked, tasks }: Props) {
  // After all that was drawn has asked where it matches.
  useEffect(() => search?.viewed());
  const keyOf = (row: number) => {
    const shown = layout.at(row);
    return typeof shown === "number" ? shown : `${shown.kind} ${shown.line}`;
  };
  function draw(row: number) {
    const shown = layout.at(row);
    if (typeof shown !== "number") return <Divided divider={shown} tasks={tasks} />;
    const { text, styled, rank, second } = log.whole(shown);
    return (
      <LogLine
        number={shown + 1}
        text={text}
        styled={styled}
        second={second}
        worker={rank}
        ranges={search?.rangesOf(shown, text) ?? NOWHERE}
        marked={shown === marked}
        time={columns.time}
        rank={columns.rank}
      />
    );
  }
  return { keyOf, draw };
}

const NOWHERE: readonly [] = [];

/** Lines of one height each: where a row lies is a multiplication, however many there are. */
export function EvenRows(props: Props) {
  const { layout, scroller, onHeight } = props;
  const { keyOf, draw } = useRows(props);
  const [, moved] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const sizes = new ResizeObserver(moved);
    sizes.observe(box);
    box.addEventListener("scroll", moved, { passive: true });
    return () => {
      sizes.disconnect();
      box.removeEventListener("scroll", moved);
    };
  }, [scroller]);
  const { count } = layout;
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the number of rows that makes the height.
  useLayoutEffect(onHeight, [count, onHeight]);
  const box = scroller.current;
  const { first, end, offset } = rowsInView(count, box?.scrollTop ?? 0, box?.clientHeight ?? 600, SPARE);
  return (
    <div className={classes.space} style={{ height: spaceOf(count) }}>
      {Array.from({ length: end - first }, (_, at) => {
        const row = first + at;
        return (
          <div
            key={keyOf(row)}
            className={classes.row}
            style={{ transform: `translateY(${offset + at * ROW_PX}px)` }}
          >
            {draw(row)}
          </div>
        );
      })}
    </div>
  );
}

/** Lines as high as they need, the newest MOST_WRAPPED of them. */
export function WrappedRows(props: Props) {
  const { layout, marked, visit, scroller, onHeight } = props;
  const { keyOf, draw } = useRows(props);
  const left = Math.max(0, layout.count - MOST_WRAPPED);
  const rows = useVirtualizer({
    count: layout.count - left,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: SPARE,
    // A row is a line, however many the filter leaves: heights measured for one must not be used for another.
    getItemKey: (index) => keyOf(left + index),
  });
  const height = rows.getTotalSize();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the height is what has changed.
  useLayoutEffect(onHeight, [height, onHeight]);
  // Heights are known of those lines only that were drawn: where the line lies, the list finds out on its way.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when somebody is led there, not when lines come.
  useEffect(() => {
    if (marked !== null) rows.scrollToIndex(Math.max(0, layout.rowOf(marked) - left), { align: "center" });
  }, [marked, visit]);
  return (
    <>
      {left > 0 && (
        <p className={classes.note}>
          Wrapped, the newest {digits(MOST_WRAPPED)} lines are shown. Turn wrapping off, or search, to see the
          others.
        </p>
      )}
      <div className={classes.space} style={{ height }} data-wrap>
        {rows.getVirtualItems().map((row) => (
          <div
            key={row.key}
            ref={rows.measureElement}
            data-index={row.index}
            className={classes.row}
            style={{ transform: `translateY(${row.start}px)` }}
          >
            {draw(left + row.index)}
          </div>
        ))}
      </div>
    </>
  );
}
