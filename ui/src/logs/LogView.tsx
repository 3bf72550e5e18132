import { ActionIcon, Button, Switch, TextInput, Tooltip } from "@mantine/core";
import { useCallback, useDeferredValue, useEffect, useLayoutEffect, useRef, useState } from "react";
import { count as digits, plural } from "../format/number";
import { Icon } from "../shell/Icon";
import type { LogBuffer } from "./LogBuffer";
import { EvenRows, WrappedRows } from "./LogRows";
import classes from "./LogView.module.css";
import { useLog } from "./useLog";
import { useLogSearch } from "./useLogSearch";

const NEAR_END_PX = 24;

/** A line that is looked for is among the last ones: of a log that failed it is the end that was read. */
const LOOKED_THROUGH = 20_000;

interface Props {
  jobId: string;
  running: boolean;
  /** Text of the line to begin at; empty: at the end. */
  find?: string;
  /** Changes when it is asked for again. */
  visit?: string;
}

export function LogView({ jobId, running, find = "", visit = "" }: Props) {
  const { log, version, state } = useLog(jobId, running);
  const [search, setSearch] = useState("");
  const [wrap, setWrap] = useState(false);
  const [following, setFollowing] = useState(true);
  const scroller = useRef<HTMLDivElement>(null);
  const last = useRef({ top: 0, height: 0 });

  const query = useDeferredValue(search.trim());
  const found = useLogSearch(log, version, query);
  const count = found?.length ?? log.count;

  const toEnd = useCallback(() => {
    if (following && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [following]);
  useLayoutEffect(toEnd, [toEnd]);

  const [marked, setMarked] = useState<number | null>(null);
  const sought = useRef("");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the log is one object that grows; its version tells.
  useEffect(() => {
    // Not before it is all there: the line may come again, and what comes moves the end away.
    if (find === "" || !log.ended || sought.current === `${visit} ${find}`) return;
    const number = lastWith(log, find);
    if (number === null) return;
    sought.current = `${visit} ${find}`;
    setSearch("");
    setFollowing(false);
    setMarked(number);
  }, [log, version, find, visit]);
  // Once the list of all lines is drawn again.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another visit goes there again.
  useEffect(() => {
    const box = scroller.current;
    if (marked === null || !box || query !== "") return;
    const share = (marked - log.dropped + 0.5) / Math.max(1, log.count);
    box.scrollTop = share * box.scrollHeight - box.clientHeight / 2;
    box.scrollIntoView({ block: "nearest" });
  }, [marked, visit, query]);

  const Rows = wrap ? WrappedRows : EvenRows;

  function onScroll() {
    const el = scroller.current;
    if (!el) return;
    const atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < NEAR_END_PX;
    // Going up is the reader's doing, unless the text became shorter under them.
    const wentUp = el.scrollTop < last.current.top && el.scrollHeight >= last.current.height;
    last.current = { top: el.scrollTop, height: el.scrollHeight };
    // A line that was sought stays in view: the event may be that of the way to the end, a frame before.
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
        <TextInput
          className={classes.search}
          size="xs"
          aria-label="Search the log"
          placeholder="Search"
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
          leftSection={<Icon name="search" />}
        />
        <span className={classes.count} data-testid="log-count">
          {found && `${digits(count)} of `}
          {plural(log.count, "line")}
        </span>
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
      <div
        ref={scroller}
        className={classes.lines}
        onScroll={onScroll}
        role="log"
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: whatever scrolls must be reachable by keyboard.
        tabIndex={0}
      >
        {log.dropped > 0 && !found && (
          <p className={classes.note}>{digits(log.dropped)} earlier lines are only in the download.</p>
        )}
        {count === 0 && (
          <p className={classes.note}>{query ? "No line contains that." : emptyNote(log.ended, running)}</p>
        )}
        <Rows log={log} found={found} query={query} marked={marked} scroller={scroller} onHeight={toEnd} />
      </div>
      {!following && !log.ended && (
        <Button className={classes.follow} size="xs" onClick={() => setFollowing(true)}>
          Follow the end
        </Button>
      )}
    </section>
  );
}

/** The number of the last line that contains this. */
function lastWith(log: LogBuffer, text: string): number | null {
  const end = log.dropped + log.count;
  for (let number = end - 1; number >= Math.max(log.dropped, end - LOOKED_THROUGH); number--) {
    if (log.line(number).includes(text)) return number;
  }
  return null;
}

function emptyNote(ended: boolean, running: boolean): string {
  if (ended) return "The job wrote nothing.";
  return running ? "Nothing written yet." : "Loading.";
}
