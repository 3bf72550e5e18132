/** Part of a line: [from, to). */
export type Range = readonly [from: number, to: number];

/** Maximum matches marked in a line. */
const MOST = 50;

/** Return the matches in a line. An empty match ends the list. */
export function rangesIn(line: string, wanted: RegExp): Range[] {
  const ranges: Range[] = [];
  for (const match of line.matchAll(wanted)) {
    if (match[0] === "" || ranges.length === MOST) break;
    ranges.push([match.index, match.index + match[0].length]);
  }
  return ranges;
}

/** Return the indexes of matching lines in one text. Each line ends at the next start. The expression is tested on
 * one line at a time. */
export function linesThatMatch(text: string, starts: ArrayLike<number>, wanted: RegExp): number[] {
  const found: number[] = [];
  const one = new RegExp(wanted.source, wanted.flags.replace("g", ""));
  for (let at = 0; at < starts.length; at++) {
    const next = starts[at + 1] ?? text.length;
    if (one.test(text.slice(starts[at], text[next - 1] === "\n" ? next - 1 : next))) found.push(at);
  }
  return found;
}

/** Question to a worker: matching lines of a text, or ranges in lines. */
export type Question =
  | { wanted: RegExp; text: string; starts: Int32Array }
  | { wanted: RegExp; lines: readonly string[] };

export type Answer = { found: number[] } | { ranges: Range[][] };

export function answer(question: Question): Answer {
  const { wanted } = question;
  if ("lines" in question) return { ranges: question.lines.map((line) => rangesIn(line, wanted)) };
  return { found: linesThatMatch(question.text, question.starts, wanted) };
}
