import { PLAIN, type Span, type Style } from "./ansi";
import type { Range } from "./marks";

/** Part of a line in a single style: [from, to). */
interface Segment {
  from: number;
  to: number;
  /** null: the default style. */
  style: Style | null;
  marked: boolean;
}

/** Split a line where its style changes, or a match begins or ends. */
export function segmentsOf(text: string, spans: readonly Span[], ranges: readonly Range[]): Segment[] {
  const cuts = new Set([0, text.length, ...spans.map((span) => span.start), ...ranges.flat()]);
  const places = [...cuts].filter((at) => at <= text.length).sort((a, b) => a - b);
  const segments: Segment[] = [];
  let span = -1;
  let range = 0;
  for (let at = 0; at + 1 < places.length; at++) {
    const [from, to] = [places[at] as number, places[at + 1] as number];
    while ((spans[span + 1]?.start ?? Number.POSITIVE_INFINITY) <= from) span++;
    while ((ranges[range]?.[1] ?? Number.POSITIVE_INFINITY) <= from) range++;
    const style = spans[span]?.style ?? PLAIN;
    segments.push({
      from,
      to,
      style: style === PLAIN ? null : style,
      marked: (ranges[range]?.[0] ?? Number.POSITIVE_INFINITY) <= from,
    });
  }
  return segments;
}
