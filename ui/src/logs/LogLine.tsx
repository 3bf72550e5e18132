import { memo } from "react";
import { BAD } from "./LogSearch";
import classes from "./LogView.module.css";

interface Props {
  number: number;
  text: string;
  /** What was searched for. */
  wanted: RegExp | null;
  marked: boolean;
}

/** One line with its number, which is its address, and what was searched for marked. */
export const LogLine = memo(function LogLine({ number, text, wanted, marked }: Props) {
  return (
    <>
      <a className={classes.number} href={`#L${number}`} tabIndex={-1} aria-label={`Line ${number}`}>
        {number}
      </a>
      <span className={classes.text} data-level={levelOf(text)} data-marked={marked}>
        {wanted ? withMarks(text, wanted) : text || " "}
      </span>
    </>
  );
});

const WARN = /\bWARN(ING)?\b/;

function levelOf(text: string): "bad" | "warn" | undefined {
  if (text.search(BAD) >= 0) return "bad";
  return WARN.test(text) ? "warn" : undefined;
}

/** More of a line are not marked. */
const MOST_MARKS = 50;

function withMarks(text: string, wanted: RegExp) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(wanted)) {
    if (match[0] === "" || parts.length > 2 * MOST_MARKS) break;
    parts.push(text.slice(from, match.index), <mark key={match.index}>{match[0]}</mark>);
    from = match.index + match[0].length;
  }
  return parts.length > 0 ? [...parts, text.slice(from)] : text || " ";
}
