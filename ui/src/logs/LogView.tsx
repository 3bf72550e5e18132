import { ActionIcon, Button, Switch, TextInput, Tooltip } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useLayoutEffect, useMemo, useRef, useState } from "react";
import { Icon } from "../shell/Icon";
import { matches } from "./LogBuffer";
import { LogLine } from "./LogLine";
import classes from "./LogView.module.css";
import { useLog } from "./useLog";

const ROW_PX = 20;
const NEAR_END_PX = 24;

export function LogView({ jobId, running }: { jobId: string; running: boolean }) {
  const { log, version, state } = useLog(jobId, running);
  const [search, setSearch] = useState("");
  const [wrap, setWrap] = useState(false);
  const [following, setFollowing] = useState(true);
  const scroller = useRef<HTMLDivElement>(null);
  const last = useRef({ top: 0, height: 0 });

  const query = useDeferredValue(search.trim());
  // biome-ignore lint/correctness/useExhaustiveDependencies: the lines are one array that grows; its version tells.
  const found = useMemo(() => (query ? matches(log.lines, query) : null), [log, version, query]);
  const count = found?.length ?? log.lines.length;

  const rows = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 15,
    // A row is a line, however many the filter leaves: heights measured for one must not be used for another.
    getItemKey: (index) => log.dropped + (found?.[index] ?? index),
  });
  const height = rows.getTotalSize();

  // biome-ignore lint/correctness/useExhaustiveDependencies: more lines, or higher ones, are what moves the end.
  useLayoutEffect(() => {
    if (following && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [following, count, height, version]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: wrapping changes every height.
  useLayoutEffect(() => rows.measure(), [wrap]);

  function onScroll() {
    const el = scroller.current;
    if (!el) return;
    const atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < NEAR_END_PX;
    // Going up is the reader's doing, unless the text became shorter under them.
    const wentUp = el.scrollTop < last.current.top && el.scrollHeight >= last.current.height;
    last.current = { top: el.scrollTop, height: el.scrollHeight };
    if (atEnd) setFollowing(true);
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
          {found
            ? `${count.toLocaleString()} of ${log.lines.length.toLocaleString()}`
            : count.toLocaleString()}{" "}
          lines
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
          <p className={classes.note}>
            {log.dropped.toLocaleString()} earlier lines are only in the download.
          </p>
        )}
        {count === 0 && (
          <p className={classes.note}>{query ? "No line contains that." : emptyNote(log.ended, running)}</p>
        )}
        <div className={classes.space} style={{ height }} data-wrap={wrap}>
          {rows.getVirtualItems().map((row) => {
            const index = found?.[row.index] ?? row.index;
            return (
              <div
                key={row.key}
                ref={wrap ? rows.measureElement : undefined}
                data-index={row.index}
                className={classes.row}
                style={{ transform: `translateY(${row.start}px)` }}
              >
                <LogLine number={log.dropped + index + 1} text={log.lines[index] ?? ""} query={query} />
              </div>
            );
          })}
        </div>
      </div>
      {!following && !log.ended && (
        <Button className={classes.follow} size="xs" onClick={() => setFollowing(true)}>
          Follow the end
        </Button>
      )}
    </section>
  );
}

function emptyNote(ended: boolean, running: boolean): string {
  if (ended) return "The job wrote nothing.";
  return running ? "Nothing written yet." : "Loading.";
}
