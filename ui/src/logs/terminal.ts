import { ESC, PLAIN, type Style, sequenceOf, styleAfter, withoutOthers, withoutSequences } from "./ansi";

/** How launchers begin the lines of a worker: horovodrun "[3]<stdout>:", mpirun "[1,3]<stderr>:", torch "[rank3]:". */
const RANK = /^\[(?:(?:\d{1,6},)?(\d{1,6})\]<std(?:out|err)>:?|(?:rank|default)(\d{1,6})\]: ?)/;

/** What a terminal would show of one line. */
export interface Shown {
  text: string;
  /** The text with the sequences that give it its looks; empty where it has none. */
  styled: string;
  /** The worker that wrote it; -1: the line does not say. */
  rank: number;
  /** How the next line begins. */
  after: Style;
}

/** Whether a line, or lines, may be shown otherwise than they are. */
export const isOdd = (raw: string) =>
  raw.includes(ESC) ||
  raw.includes("\r") ||
  raw.includes("]<std") ||
  raw.includes("[rank") ||
  raw.includes("[default");

/** After a carriage return the line starts anew; `before` is how the line before it left the terminal. */
export function show(raw: string, before: Style = PLAIN): Shown {
  const end = raw.endsWith("\r") ? raw.length - 1 : raw.length;
  const start = Math.min(end, raw.lastIndexOf("\r", end - 1) + 1);
  let text = raw.slice(start, end);
  const found = RANK.exec(text) ?? RANK.exec(raw);
  const rank = found ? Number(found[1] ?? found[2]) : -1;
  if (found && text.startsWith(found[0])) text = text.slice(found[0].length);
  if (before === PLAIN && !raw.includes(ESC)) return { text, styled: "", rank, after: before };
  const at = styleAfter(before, raw.slice(0, start));
  const after = styleAfter(at, text);
  const styled =
    at === PLAIN && after === PLAIN && !text.includes(`${ESC}[`) ? "" : sequenceOf(at) + withoutOthers(text);
  return { text: withoutSequences(text), styled: styled.includes(ESC) ? styled : "", rank, after };
}
