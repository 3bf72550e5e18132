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
/** Maximum wrapped lines. Their heights must be measured, and laid out again with each new line. */
const MOST_WRAPPED = 20_000;

interface Props {
  log: LogBuffer;
  layout: Layout;
  columns: Columns;
  /** Active search. */
  search: Search | null;
  /** Number of the line that a link or search leads to. */
  marked: number | null;
  /** Changes with each new visit to that line. */
  visit: string;
  /** Containers of the job. */
  tasks: readonly Task[];
  scroller: RefObject<HTMLDivElement | null>;
  /** Called after the height has changed. */
  onHeight: () => void;
}

/** Row keys and content, the same for both layouts of rows. */
function useRows({ log, layout, columns, search, marked, tasks }: Props) {
  // Runs after all drawn lines have asked for their matches.
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

/** Lines of equal height. A row's position is a multiplication, however many lines there are. */
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
  // biome-ignore lint/correctness/useExhaustiveDependencies: the height depends on the number of rows.
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

/** Lines of different heights, at most the newest MOST_WRAPPED. */
export function WrappedRows(props: Props) {
  const { layout, marked, visit, scroller, onHeight } = props;
  const { keyOf, draw } = useRows(props);
  const left = Math.max(0, layout.count - MOST_WRAPPED);
  const rows = useVirtualizer({
    count: layout.count - left,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: SPARE,
    // The key is the line's, not the index: heights measured for one line must not be used for another.
    getItemKey: (index) => keyOf(left + index),
  });
  const height = rows.getTotalSize();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the effect runs when the height changes.
  useLayoutEffect(onHeight, [height, onHeight]);
  // Only lines that were drawn have a known height. The list finds the line's position while scrolling.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only visits scroll to the line, not new lines.
  useEffect(() => {
    if (marked !== null) rows.scrollToIndex(Math.max(0, layout.rowOf(marked) - left), { align: "center" });
  }, [marked, visit]);
  return (
    <>
      {left > 0 && (
        <p className={classes.note}>
          Wrapped, the newest {digits(MOST_WRAPPED)} lines are shown. Turn off wrapping, or search, to see the
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
