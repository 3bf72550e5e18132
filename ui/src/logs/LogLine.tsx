import { notifications } from "@mantine/notifications";
import { memo, type ReactNode } from "react";
import { clock } from "../format/clock";
import { timeOfDay, utc, when } from "../format/time";
import { copyText } from "../shell/CopyButton";
import { spansOf } from "./ansi";
import { BAD } from "./LogSearch";
import classes from "./LogView.module.css";
import { looksOf } from "./looks";
import type { Range } from "./marks";
import { segmentsOf } from "./segments";

/** Columns shown before the text. */
export interface Columns {
  time: boolean;
  rank: boolean;
}

interface Props extends Columns {
  /** Line number, counted from 1. */
  number: number;
  text: string;
  styled: string;
  second: number;
  worker: number;
  /** Matches of the search in this line. */
  ranges: readonly Range[];
  marked: boolean;
}

/** Log line with number, time and rank. The number is a link to it, and search matches are marked. */
export const LogLine = memo(function LogLine(props: Props) {
  const { number, text, styled, ranges, marked, time, second, rank, worker } = props;
  return (
    <>
      <a
        className={classes.number}
        href={`#L${number}`}
        // The keyboard reaches the marked line. A tab stop per line would be too many.
        tabIndex={marked ? 0 : -1}
        aria-label={`Line ${number}`}
        title="Copy a link to this line"
        onClick={() => copyLink(number)}
      >
        {number}
      </a>
      {time && <Time second={second} />}
      {rank && (
        <span className={classes.rank} title={worker < 0 ? undefined : `Rank ${worker}`}>
          {worker < 0 ? "" : `[${worker}]`}
        </span>
      )}
      <span className={classes.text} data-level={levelOf(text)} data-marked={marked}>
        {text === "" ? " " : shown(text, styled, ranges)}
      </span>
    </>
  );
});

async function copyLink(number: number) {
  await copyText(new URL(`#L${number}`, window.location.href).href);
  notifications.show({ message: `Copied the link to line ${number}.` });
}

function Time({ second }: { second: number }) {
  if (second === 0) return <span className={classes.time} />;
  const at = second * 1000;
  return (
    <time
      className={classes.time}
      dateTime={new Date(at).toISOString()}
      title={`${when(at, clock.now(), true)}, ${utc(at)}`}
    >
      {timeOfDay(new Date(at), true)}
    </time>
  );
}

const WARN = /\bWARN(ING)?\b/;

function levelOf(text: string): "bad" | "warn" | undefined {
  if (text.search(BAD) >= 0) return "bad";
  return WARN.test(text) ? "warn" : undefined;
}

function shown(text: string, styled: string, ranges: readonly Range[]): ReactNode {
  if (styled === "" && ranges.length === 0) return text;
  return segmentsOf(text, styled === "" ? [] : spansOf(styled), ranges).map(({ from, to, style, marked }) => {
    const part = text.slice(from, to);
    const looks = style ? looksOf(style) : undefined;
    if (marked)
      return (
        <mark key={from} style={looks && { ...looks, color: undefined, backgroundColor: undefined }}>
          {part}
        </mark>
      );
    return looks ? (
      <span key={from} style={looks}>
        {part}
      </span>
    ) : (
      part
    );
  });
}
