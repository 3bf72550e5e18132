import { useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useEffect, useLayoutEffect, useReducer } from "react";
import { count as digits } from "../format/number";
import type { LogBuffer } from "./LogBuffer";
import { LogLine } from "./LogLine";
import classes from "./LogView.module.css";
import { ROW_PX, rowsInView, spaceOf } from "./rows";

const SPARE = 15;
/** Heights of wrapped lines have to be measured, and laid out anew with each line that comes: so many at most. */
export const MOST_WRAPPED = 20_000;

interface Props {
  log: LogBuffer;
  /** Numbers of the lines to show, from the first that there ever was; null: all. */
  found: readonly number[] | null;
  /** What was searched for. */
  wanted: RegExp | null;
  /** The line that somebody was led to. */
  marked: number | null;
  scroller: RefObject<HTMLDivElement | null>;
  /** Called after the height has changed. */
  onHeight: () => void;
}

const countOf = ({ log, found }: Props) => found?.length ?? log.count;

/** Lines of one height each: where a row lies is a multiplication, however many there are. */
export function EvenRows(props: Props) {
  const { log, found, wanted, marked, scroller, onHeight } = props;
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
  const count = countOf(props);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the number of rows that makes the height.
  useLayoutEffect(onHeight, [count, onHeight]);
  const box = scroller.current;
  const { first, end, offset } = rowsInView(count, box?.scrollTop ?? 0, box?.clientHeight ?? 600, SPARE);
  return (
    <div className={classes.space} style={{ height: spaceOf(count) }}>
      {Array.from({ length: end - first }, (_, at) => {
        const number = found?.[first + at] ?? log.dropped + first + at;
        return (
          <div
            key={number}
            className={classes.row}
            style={{ transform: `translateY(${offset + at * ROW_PX}px)` }}
          >
            <LogLine number={number + 1} text={log.line(number)} wanted={wanted} marked={number === marked} />
          </div>
        );
      })}
    </div>
  );
}

/** Lines as high as they need, the newest MOST_WRAPPED of them. */
export function WrappedRows(props: Props) {
  const { log, found, wanted, marked, scroller, onHeight } = props;
  const left = Math.max(0, countOf(props) - MOST_WRAPPED);
  const rows = useVirtualizer({
    count: countOf(props) - left,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: SPARE,
    // A row is a line, however many the filter leaves: heights measured for one must not be used for another.
    getItemKey: (index) => found?.[left + index] ?? log.dropped + left + index,
  });
  const height = rows.getTotalSize();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the height is what has changed.
  useLayoutEffect(onHeight, [height, onHeight]);
  return (
    <>
      {left > 0 && (
        <p className={classes.note}>
          Wrapped, the newest {digits(MOST_WRAPPED)} lines are shown. Turn wrapping off, or search, to see the
          others.
        </p>
      )}
      <div className={classes.space} style={{ height }} data-wrap>
        {rows.getVirtualItems().map((row) => {
          const number = Number(row.key);
          return (
            <div
              key={row.key}
              ref={rows.measureElement}
              data-index={row.index}
              className={classes.row}
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <LogLine
                number={number + 1}
                text={log.line(number)}
                wanted={wanted}
                marked={number === marked}
              />
            </div>
          );
        })}
      </div>
    </>
  );
}
