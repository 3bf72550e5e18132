import type { Span } from "../api/types";

/** Return the mean number of GPUs held in each time bin. The `bins` bins are equal parts of [from, to), both in
 * epoch ms. x is the middle of each bin in epoch s. */
export function busyOverTime(
  spans: readonly Pick<Span, "lanes" | "claimed_at" | "finished_at">[],
  from: number,
  to: number,
  bins: number,
): [number[], number[]] {
  const width = (to - from) / bins;
  const held = new Array<number>(bins).fill(0);
  for (const span of spans) {
    const begin = Math.max(from, Date.parse(span.claimed_at));
    const end = Math.min(to, span.finished_at === null ? to : Date.parse(span.finished_at));
    if (end <= begin) continue;
    const last = Math.min(bins - 1, Math.floor((end - from) / width));
    for (let bin = Math.floor((begin - from) / width); bin <= last; bin++) {
      const left = from + bin * width;
      const share = (Math.min(end, left + width) - Math.max(begin, left)) / width;
      held[bin] = (held[bin] ?? 0) + Math.max(0, share) * span.lanes.length;
    }
  }
  return [held.map((_, bin) => (from + (bin + 0.5) * width) / 1000), held];
}
