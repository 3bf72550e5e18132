import type { Expected, Span, Timeline } from "../../api/types";

/** Bar of a job on one lane, past or predicted. Times are epoch ms. */
export interface Bar {
  job: string;
  name: string;
  user: string;
  /** 0: the job waits. */
  attempt: number;
  gpus: number;
  /** Start of the GPU allocation, or of a waiting job's wait. */
  claimed: number;
  /** Start of its container; for a waiting job, the predicted one. */
  started: number | null;
  /** null: it still runs. */
  finished: number | null;
  /** Predicted end of an unfinished job. */
  expected: number | null;
  end: Span["end"];
  outcome: string;
  /** Rows that show the bar, as laid out by `rowsOf`. */
  rows: number[];
}

export interface Lane {
  /** Empty: the lane of a waiting job. */
  uuid: string;
  host: string;
  index: number;
  /** Sorted by the time of allocation. Bars overlap only if jobs share the GPU. */
  bars: Bar[];
}

const ms = (iso: string | null) => (iso === null ? null : Date.parse(iso));

/** Return the lanes of the GPUs, in the order of the reply. GPUs that are gone are included only if something ran on
 * them. */
export function lanesOf(timeline: Timeline, expected: readonly Expected[] = []): Lane[] {
  const lanes: Lane[] = timeline.lanes.map(({ uuid, host, index }) => ({ uuid, host, index, bars: [] }));
  const ends = new Map(expected.map((each) => [each.job, ms(each.end)]));
  for (let at = timeline.spans.length - 1; at >= 0; at--) {
    const span = timeline.spans[at];
    if (!span) continue;
    const finished = ms(span.finished_at);
    const bar: Bar = {
      job: span.job,
      name: span.name,
      user: span.user,
      attempt: span.attempt,
      gpus: span.lanes.length,
      claimed: Date.parse(span.claimed_at),
      started: ms(span.started_at),
      finished,
      expected: finished === null ? (ends.get(span.job) ?? null) : null,
      end: span.end,
      outcome: span.outcome,
      rows: [],
    };
    for (const lane of span.lanes) lanes[lane]?.bars.push(bar);
  }
  for (const lane of lanes) lane.bars.sort((a, b) => a.claimed - b.claimed);
  return lanes.filter((lane, position) => timeline.lanes[position]?.present || lane.bars.length > 0);
}

/** Heading of the waiting jobs' lanes, in place of a host. */
const WAITING = "waiting";

/** Return a lane for each waiting job, by predicted start. */
export function waitingLanes(expected: readonly Expected[]): Lane[] {
  return expected
    .filter((each) => each.start !== null)
    .map((each, index) => ({
      uuid: "",
      host: WAITING,
      index,
      bars: [
        {
          job: each.job,
          name: each.name,
          user: each.user,
          attempt: 0,
          gpus: each.gpus,
          claimed: Date.parse(each.submitted_at),
          started: ms(each.start),
          finished: null,
          expected: ms(each.end),
          end: null,
          outcome: "",
          rows: [],
        },
      ],
    }));
}

/** Style of a bar. */
type BarState = "waiting" | "running" | "succeeded" | "failed" | "cancelled" | "replaced";

export const stateOf = (bar: Bar): BarState =>
  bar.attempt === 0 ? "waiting" : bar.finished === null ? "running" : (bar.end ?? "replaced");

export const STATES: Record<BarState, string> = {
  running: "running",
  waiting: "waiting",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  replaced: "continued elsewhere",
};

export const isBarState = (name: string | null): name is BarState =>
  name !== null && Object.hasOwn(STATES, name);

/** Return the lanes with matching bars, and only these bars. `text` is a part of a job's name, id or user, or of a
 * host's name. */
export function filtered(lanes: readonly Lane[], text: string, state: BarState | ""): Lane[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "" && state === "") return [...lanes];
  const has = (found: string) => found.toLowerCase().includes(wanted);
  return lanes
    .map((lane) => ({
      ...lane,
      bars: lane.bars.filter(
        (bar) =>
          (state === "" || stateOf(bar) === state) &&
          (has(bar.name) || has(bar.user) || has(bar.job) || (lane.uuid !== "" && has(lane.host))),
      ),
    }))
    .filter((lane) => lane.bars.length > 0 || (state === "" && lane.uuid !== "" && has(lane.host)));
}

/** Set the rows of each bar, and return the lanes. */
export function rowsOf(lanes: Lane[]): Lane[] {
  for (const lane of lanes) for (const bar of lane.bars) bar.rows = [];
  for (const [row, lane] of lanes.entries()) for (const bar of lane.bars) bar.rows.push(row);
  return lanes;
}

/** Return the first and last row of a bar's block. A block is adjacent rows of one host that show the bar. `row` is
 * one of them. */
export function blockOf(lanes: readonly Lane[], bar: Bar, row: number): [number, number] {
  const host = lanes[row]?.host;
  const at = bar.rows.indexOf(row);
  let [first, last] = [at, at];
  while (first > 0 && joins(bar.rows[first - 1], bar.rows[first])) first--;
  while (last < bar.rows.length - 1 && joins(bar.rows[last], bar.rows[last + 1])) last++;
  return [bar.rows[first] ?? row, bar.rows[last] ?? row];

  function joins(one: number | undefined, next: number | undefined) {
    return one !== undefined && next === one + 1 && lanes[one]?.host === host && lanes[next]?.host === host;
  }
}

/** Return the end of a bar, with its predicted part. */
export const reachOf = (bar: Bar, now: number) => bar.finished ?? Math.max(now, bar.expected ?? now);

/** Return the bar of a lane at a time. If several jobs share the GPU, it is the newest. */
export function barAt(lane: Lane, at: number, now: number): Bar | undefined {
  return lane.bars.findLast((bar) => bar.claimed <= at && at <= reachOf(bar, now));
}

/** Return the bar that an arrow key leads to. It is on the same lane, or it is the nearest in time on the next lane
 * with bars. */
export function barBeside(lanes: readonly Lane[], row: number, bar: Bar | null, key: string): Place | null {
  const step = key === "ArrowUp" || key === "ArrowLeft" ? -1 : 1;
  if (bar && (key === "ArrowLeft" || key === "ArrowRight")) {
    const bars = lanes[row]?.bars ?? [];
    const next = bars[bars.indexOf(bar) + step];
    return next ? { row, bar: next } : { row, bar };
  }
  for (let next = bar ? row + step : 0; next >= 0 && next < lanes.length; next += step || 1) {
    const nearest = lanes[next]?.bars.reduce<Bar | null>(
      (best, each) => (!best || (bar && distance(each, bar) < distance(best, bar)) || !bar ? each : best),
      null,
    );
    if (nearest) return { row: next, bar: nearest };
  }
  return bar ? { row, bar } : null;
}

const distance = (one: Bar, other: Bar) => Math.abs(one.claimed - other.claimed);

export interface Place {
  row: number;
  bar: Bar;
}

export interface Window {
  from: number;
  to: number;
}

const SHORTEST_MS = 10_000;
const LONGEST_MS = 400 * 86_400_000;

/** Zoom a window around a point. A `factor` below 1 shows less time. `at` is the point, from 0 to 1. */
export function zoomed({ from, to }: Window, factor: number, at = 0.5): Window {
  const width = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, (to - from) * factor));
  const point = from + (to - from) * at;
  return { from: point - width * at, to: point + width * (1 - at) };
}

/** Return the point to zoom around without a pointer. It is now if shown, else the middle. */
export function focusOf({ from, to }: Window, now: number): number {
  return from < now && now < to ? (now - from) / (to - from) : 0.5;
}

export function moved({ from, to }: Window, share: number): Window {
  const by = (to - from) * share;
  return { from: from + by, to: to + by };
}

/** Return a window of the same length that shows a time. It is the same window if it already does. */
export function showing(window: Window, at: number): Window {
  const { from, to } = window;
  return from <= at && at <= to ? window : moved(window, (at - (from + to) / 2) / (to - from));
}

const STEPS_S = [
  1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
];

/** Return round times (epoch s) for at most `most` ticks. Ticks are on whole local hours and days. */
export function ticksOf({ from, to }: Window, most: number): number[] {
  const least = (to - from) / 1000 / Math.max(1, most);
  const step = STEPS_S.find((each) => each >= least) ?? 2_592_000;
  const offset = new Date(from).getTimezoneOffset() * 60;
  const ticks: number[] = [];
  const first = Math.ceil((from / 1000 - offset) / step) * step + offset;
  for (let tick = first; tick <= to / 1000; tick += step) ticks.push(tick);
  return ticks;
}
