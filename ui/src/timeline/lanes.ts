import type { Timeline } from "../api/types";

/** A container on one lane; times are epoch ms. */
export interface Bar {
  job: string;
  name: string;
  user: string;
  attempt: number;
  gpus: number;
  claimed: number;
  started: number | null;
  /** null: it still runs. */
  finished: number | null;
  outcome: string;
}

export interface Lane {
  uuid: string;
  host: string;
  index: number;
  /** By time of their claim; no two overlap unless jobs share the GPU. */
  bars: Bar[];
}

/** What each GPU had, in the order of the answer's lanes; GPUs that are gone only if something ran on them. */
export function lanesOf(timeline: Timeline): Lane[] {
  const lanes: Lane[] = timeline.lanes.map(({ uuid, host, index }) => ({ uuid, host, index, bars: [] }));
  for (let at = timeline.spans.length - 1; at >= 0; at--) {
    const span = timeline.spans[at];
    if (!span) continue;
    const bar: Bar = {
      job: span.job,
      name: span.name,
      user: span.user,
      attempt: span.attempt,
      gpus: span.lanes.length,
      claimed: Date.parse(span.claimed_at),
      started: span.started_at === null ? null : Date.parse(span.started_at),
      finished: span.finished_at === null ? null : Date.parse(span.finished_at),
      outcome: span.outcome,
    };
    for (const lane of span.lanes) lanes[lane]?.bars.push(bar);
  }
  for (const lane of lanes) lane.bars.sort((a, b) => a.claimed - b.claimed);
  return lanes.filter((lane, position) => timeline.lanes[position]?.present || lane.bars.length > 0);
}

/** The bar of a lane at a time; the newest if several jobs share the GPU. */
export function barAt(lane: Lane, at: number, now: number): Bar | undefined {
  return lane.bars.findLast((bar) => bar.claimed <= at && at <= (bar.finished ?? now));
}

export interface Window {
  from: number;
  to: number;
}

const SHORTEST_MS = 10_000;
const LONGEST_MS = 400 * 86_400_000;

/** The window zoomed around one of its points: `factor` below 1 shows less time. `at` is that point, from 0 to 1. */
export function zoomed({ from, to }: Window, factor: number, at = 0.5): Window {
  const width = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, (to - from) * factor));
  const point = from + (to - from) * at;
  return { from: point - width * at, to: point + width * (1 - at) };
}

/** The point to zoom around where none is pointed at: now if it is shown, else the middle. */
export function focusOf({ from, to }: Window, now: number): number {
  return from < now && now < to ? (now - from) / (to - from) : 0.5;
}

export function moved({ from, to }: Window, share: number): Window {
  const by = (to - from) * share;
  return { from: from + by, to: to + by };
}

const STEPS_S = [
  1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
];

/** Round times (epoch s) for at most `most` ticks of a window, on whole local hours and days. */
export function ticksOf({ from, to }: Window, most: number): number[] {
  const least = (to - from) / 1000 / Math.max(1, most);
  const step = STEPS_S.find((each) => each >= least) ?? 2_592_000;
  const offset = new Date(from).getTimezoneOffset() * 60;
  const ticks: number[] = [];
  const first = Math.ceil((from / 1000 - offset) / step) * step + offset;
  for (let tick = first; tick <= to / 1000; tick += step) ticks.push(tick);
  return ticks;
}
