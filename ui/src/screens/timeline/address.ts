import type { Window } from "./lanes";

const HOUR_MS = 3_600_000;

/** Share of a span to add for the future. */
const AHEAD = 0.15;

export const SPANS = {
  "1h": HOUR_MS,
  "6h": 6 * HOUR_MS,
  "24h": 24 * HOUR_MS,
  "7d": 168 * HOUR_MS,
  "30d": 720 * HOUR_MS,
};

export type SpanName = keyof typeof SPANS;

/** Read the window from the address. `span` is a length up to now; `from` and `to` (ISO 8601) are fixed. */
export function windowOf(address: URLSearchParams, now: number): { window: Window; name: SpanName | "" } {
  const [from, to] = [Date.parse(address.get("from") ?? ""), Date.parse(address.get("to") ?? "")];
  if (Number.isFinite(from) && Number.isFinite(to) && from < to) return { window: { from, to }, name: "" };
  const given = address.get("span") ?? "";
  const name = Object.hasOwn(SPANS, given) ? (given as SpanName) : "24h";
  const length = SPANS[name];
  return { window: { from: now - length, to: now + length * AHEAD }, name };
}

export function addressOf({ from, to }: Window): Record<string, string> {
  return { from: new Date(Math.round(from)).toISOString(), to: new Date(Math.round(to)).toISOString() };
}

/** Return the time range to fetch for a window. It leaves space for panning, and is rounded so that panning seldom
 * causes a request. */
export function loadedFor({ from, to }: Window, now: number): { from: number; to: number | null } {
  const grain = 2 ** Math.ceil(Math.log2(to - from)) / 2;
  const end = (Math.ceil(to / grain) + 1) * grain;
  return { from: (Math.floor(from / grain) - 1) * grain, to: end >= now ? null : end };
}
