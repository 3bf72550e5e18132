import { memo } from "react";
import classes from "./LogView.module.css";

interface Props {
  number: number;
  text: string;
  query: string;
  marked: boolean;
}

/** One line with its number, and what was searched for marked. */
export const LogLine = memo(function LogLine({ number, text, query, marked: led }: Props) {
  return (
    <>
      <span className={classes.number} aria-hidden>
        {number}
      </span>
      <span className={classes.text} data-level={levelOf(text)} data-marked={led}>
        {query ? marked(text, query) : text || " "}
      </span>
    </>
  );
});

/** Levels as loggers write them, and the words that end a training. */
const BAD = /\b(ERROR|CRITICAL|FATAL)\b|^Traceback |^\w*(Error|Exception)\b/;
const WARN = /\bWARN(ING)?\b/;

function levelOf(text: string): "bad" | "warn" | undefined {
  if (BAD.test(text)) return "bad";
  return WARN.test(text) ? "warn" : undefined;
}

function marked(text: string, query: string) {
  const at = text.toLowerCase().indexOf(query.toLowerCase());
  if (at < 0) return text;
  const end = at + query.length;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, end)}</mark>
      {text.slice(end)}
    </>
  );
}
