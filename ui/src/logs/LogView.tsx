import { ActionIcon, Button, Switch, Tooltip } from "@mantine/core";
import {
  type CSSProperties,
  useCallback,
  useDeferredValue,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import type { Task } from "../api/types";
import { count as digits, plural } from "../format/number";
import { Icon } from "../shell/Icon";
import { ErrorTicks } from "./ErrorTicks";
import type { LogBuffer } from "./LogBuffer";
import { ColumnChoice, useColumns } from "./LogColumns";
import { EvenRows, WrappedRows } from "./LogRows";
import { BAD, patternOf, type Search } from "./LogSearch";
import classes from "./LogView.module.css";
import { Layout } from "./layout";
import { SearchTools } from "./SearchTools";
import { useLog } from "./useLog";
import { useLogSearch } from "./useLogSearch";

const NEAR_END_PX = 24;

/** Maximum lines searched for `find`, from the end. The reason of a failure was read from the log's end. */
const LOOKED_THROUGH = 20_000;

interface Props {
  jobId: string;
  running: boolean;
  /** Containers of the job. */
  tasks: readonly Task[];
  /** Text of the line to begin at; empty: at the end. */
  find?: string;
  /** Number of the line to begin at, counted from 1. */
  line?: number | null;
  /** Changes with each new request to go there. */
  visit?: string;
}

export function LogView({ jobId, running, tasks, find = "", line = null, visit = "" }: Props) {
  const { log, version, state } = useLog(jobId, running);
  const [search, setSearch] = useState("");
  const [wrap, setWrap] = useState(false);
  const [following, setFollowing] = useState(true);
  const scroller = useRef<HTMLDivElement>(null);
  const last = useRef({ top: 0, height: 0 });

  const [regular, setRegular] = useState(false);
  // Index of the match that the user went to, among all lines; null: only matching lines are shown.
  const [current, setCurrent] = useState<number | null>(null);
  const query = useDeferredValue(search.trim());
  const wanted = useMemo(() => patternOf(query, regular), [query, regular]);
  const finding = useLogSearch(log, version, wanted, regular);
  const matches = finding?.found ?? null;
  const errors = useLogSearch(log, version, BAD)?.found ?? [];
  const only = current === null ? matches : null;
  const filtered = only !== null;
  const count = only?.length ?? log.count;
  const layout = new Layout({ found: only, first: log.dropped, kept: log.count, dividers: log.dividers });
  const { columns, shown, choose } = useColumns(log);

  const toEnd = useCallback(() => {
    if (following && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [following]);
  useLayoutEffect(toEnd, [toEnd]);

  const [marked, setMarked] = useState<number | null>(null);
  const sought = useRef("");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the log is one growing object; its version changes.
  useEffect(() => {
    // Wait until the log is complete: the text may occur again, and new lines move the end.
    if (find === "" || !log.ended || sought.current === `${visit} ${find}`) return;
    const number = lastWith(log, find);
    if (number === null) return;
    sought.current = `${visit} ${find}`;
    setSearch("");
    setFollowing(false);
    setMarked(number);
  }, [log, version, find, visit]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the log is one growing object; its version changes.
  useEffect(() => {
    if (line === null || sought.current === `${visit} L${line}` || log.dropped + log.count < line) return;
    sought.current = `${visit} L${line}`;
    leadTo(line - 1);
  }, [log, version, line, visit]);
  // Runs once the list of all lines is drawn again.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another visit goes there again.
  useEffect(() => {
    const box = scroller.current;
    if (marked === null || !box || filtered) return;
    if (!wrap) {
      const share = (layout.rowOf(marked) + 0.5) / Math.max(1, layout.count);
      box.scrollTop = share * box.scrollHeight - box.clientHeight / 2;
    }
    box.scrollIntoView({ block: "nearest" });
  }, [marked, visit, filtered]);

  function leadTo(number: number) {
    setFollowing(false);
    setMarked(number);
  }
  function goTo(by: 1 | -1) {
    if (!matches?.length) return;
    const next = current === null ? (by > 0 ? 0 : -1) : current + by;
    const index = (next + matches.length) % matches.length;
    setCurrent(index);
    leadTo(matches[index] as number);
  }
  function toNextError() {
    setSearch("");
    setCurrent(null);
    leadTo(errors.find((number) => number > (marked ?? -1)) ?? (errors[0] as number));
  }

  const Rows = wrap ? WrappedRows : EvenRows;

  function onScroll() {
    const el = scroller.current;
    if (!el) return;
    const atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < NEAR_END_PX;
    // The reader scrolled up, unless the text became shorter.
    const wentUp = el.scrollTop < last.current.top && el.scrollHeight >= last.current.height;
    last.current = { top: el.scrollTop, height: el.scrollHeight };
    // A requested line stays in view: this event may come from scrolling to the end one frame earlier.
    if (atEnd && sought.current === "") setFollowing(true);
    else if (wentUp) setFollowing(false);
  }

  return (
    <section className={classes.log} aria-label="Log">
      <div className={classes.bar}>
        <h2 className={classes.title}>Log</h2>
        <span className={classes.status} role="status">
          {log.ended ? "complete" : state === "live" ? (following ? "following" : "paused") : state}
        </span>
        <SearchTools
          text={search}
          regular={regular}
          wrong={query !== "" && wanted === null}
          problem={finding?.problem ?? ""}
          matches={matches?.length ?? null}
          current={current}
          onText={(text) => {
            setSearch(text);
            setCurrent(null);
          }}
          onRegular={() => setRegular(!regular)}
          onGo={goTo}
          onOnlyMatches={() => setCurrent(null)}
        />
        {errors.length > 0 && (
          <button type="button" className={classes.errors} onClick={toNextError} title="To the next error">
            {plural(errors.length, "error")}
          </button>
        )}
        <span className={classes.count} data-testid="log-count">
          {only && `${digits(count)} of `}
          {plural(log.count, "line")}
        </span>
        <ColumnChoice columns={columns} log={log} onChoose={choose} />
        <Switch
          size="xs"
          label="Wrap"
          checked={wrap}
          onChange={(event) => setWrap(event.currentTarget.checked)}
        />
        <Tooltip label="Download the whole log">
          <ActionIcon
            component="a"
            href={`/api/v1/jobs/${jobId}/logs`}
            download={`${jobId}.log`}
            variant="default"
            aria-label="Download the log"
          >
            <Icon name="download" />
          </ActionIcon>
        </Tooltip>
      </div>
      <div className={classes.body}>
        <div
          ref={scroller}
          className={classes.lines}
          style={{ "--digits": String(log.dropped + log.count).length } as CSSProperties}
          onScroll={onScroll}
          role="log"
          aria-live="off"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard.
          tabIndex={0}
        >
          {log.dropped > 0 && !only && (
            <p className={classes.note}>
              {digits(log.dropped)} earlier lines are available only in the download.
            </p>
          )}
          {count === 0 && (
            <p className={classes.note}>{finding ? noMatch(finding) : emptyNote(log.ended, running)}</p>
          )}
          <Rows
            log={log}
            layout={layout}
            columns={shown}
            search={finding}
            marked={marked}
            visit={visit}
            tasks={tasks}
            scroller={scroller}
            onHeight={toEnd}
          />
        </div>
        {!filtered && errors.length > 0 && <ErrorTicks layout={layout} errors={errors} />}
      </div>
      {!following && !log.ended && (
        <Button className={classes.follow} size="xs" onClick={() => setFollowing(true)}>
          Follow the end
        </Button>
      )}
    </section>
  );
}

/** Return the number of the last line that contains the text. */
function lastWith(log: LogBuffer, text: string): number | null {
  const end = log.dropped + log.count;
  for (let number = end - 1; number >= Math.max(log.dropped, end - LOOKED_THROUGH); number--) {
    if (log.line(number).includes(text)) return number;
  }
  return null;
}

function noMatch({ done, problem }: Search): string {
  if (problem) return "";
  return done ? "No line matches." : "Searching.";
}

function emptyNote(ended: boolean, running: boolean): string {
  if (ended) return "The job wrote no output.";
  return running ? "No output yet." : "Loading.";
}
