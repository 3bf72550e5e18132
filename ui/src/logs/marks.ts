/** A part of a line: [from, to). */
export type Range = readonly [from: number, to: number];

/** More of a line are not marked. */
const MOST = 50;

/** Where a line matches; a match of nothing ends it. */
export function rangesIn(line: string, wanted: RegExp): Range[] {
  const ranges: Range[] = [];
  for (const match of line.matchAll(wanted)) {
    if (match[0] === "" || ranges.length === MOST) break;
    ranges.push([match.index, match.index + match[0].length]);
  }
  return ranges;
}

/** Of lines in one text, each from its start to the next, which match; every expression is asked of one line alone. */
export function linesThatMatch(text: string, starts: ArrayLike<number>, wanted: RegExp): number[] {
  const found: number[] = [];
  const one = new RegExp(wanted.source, wanted.flags.replace("g", ""));
  for (let at = 0; at < starts.length; at++) {
    const next = starts[at + 1] ?? text.length;
    if (one.test(text.slice(starts[at], text[next - 1] === "\n" ? next - 1 : next))) found.push(at);
  }
  return found;
}

/** What a worker is asked: which lines of a text match, or where some lines do. */
export type Question =
  | { wanted: RegExp; text: string; starts: Int32Array }
  | { wanted: RegExp; lines: readonly string[] };

export type Answer = { found: number[] } | { ranges: Range[][] };

export function answer(question: Question): Answer {
  const { wanted } = question;
  if ("lines" in question) return { ranges: question.lines.map((line) => rangesIn(line, wanted)) };
  return { found: linesThatMatch(question.text, question.starts, wanted) };
}
