import { ESC, PLAIN, type Style, sequenceOf, styleAfter, withoutOthers, withoutSequences } from "./ansi";

/** Rank prefix of launchers: horovodrun "[3]<stdout>:", mpirun "[1,3]<stderr>:", torch "[rank3]:". */
const RANK = /^\[(?:(?:\d{1,6},)?(\d{1,6})\]<std(?:out|err)>:?|(?:rank|default)(\d{1,6})\]: ?)/;

/** Line as a terminal would show it. */
interface Shown {
  text: string;
  /** Text with its style sequences; empty without styles. */
  styled: string;
  /** Rank of the worker that wrote the line, or -1 if unknown. */
  rank: number;
  /** Style at the beginning of the next line. */
  after: Style;
}

/** Whether a terminal may show this text differently from its raw form. */
export const isOdd = (raw: string) =>
  raw.includes(ESC) ||
  raw.includes("\r") ||
  raw.includes("]<std") ||
  raw.includes("[rank") ||
  raw.includes("[default");

/** Return a line as a terminal shows it. A carriage return restarts the line. `before` is the style after the line
 * before. */
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
