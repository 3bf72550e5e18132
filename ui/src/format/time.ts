const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
] as const;

/** Format a duration: "45 s", "3 m 20 s". It uses the two (or `most`) largest units. */
export function duration(seconds: number, most = 2): string {
  let rest = Math.max(0, Math.floor(seconds));
  const first = UNITS.findIndex(([, size]) => rest >= size);
  if (first < 0) return "0 s";
  const parts: string[] = [];
  for (const [unit, size] of UNITS.slice(first, first + most)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count} ${unit}`);
  }
  return parts.join(" ");
}

/** Format a distance from now: "just now", "5 m ago", "in 3 d". It uses one unit. */
export function relative(at: number, now: number): string {
  const seconds = (at - now) / 1000;
  if (Math.abs(seconds) < 10) return "just now";
  return seconds < 0 ? `${duration(-seconds, 1)} ago` : `in ${duration(seconds, 1)}`;
}

/** Format the time since `iso`. With a clock that runs ahead, it is never in the future. */
export const ago = (iso: string, now: number) => relative(Math.min(Date.parse(iso), now), now);

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (value: number) => String(value).padStart(2, "0");

/** Format the local time of day: "14:02", or "14:02:10". */
export function timeOfDay(at: Date, seconds = false): string {
  return `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
}

/** Format a local day: "19 Nov". */
export const dayOf = (at: Date) => `${at.getDate()} ${MONTHS[at.getMonth()]}`;

/** Format a day in UTC: "19 Nov". */
export const utcDayOf = (at: Date) => `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;

const DAY_MS = 86_400_000;
const midnight = (at: Date) => new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
const NEAR: Record<number, string> = { [-1]: "yesterday ", 0: "", 1: "tomorrow " };

/** Format a local 24-hour time. Examples: "14:02", "yesterday 14:02", "19 Nov 14:02", "19 Nov 2025 14:02". `Intl`
 * takes longer to load than a screen takes to draw, so it is avoided here. */
export function when(time: string | number, now: number, seconds = false): string {
  const [at, today] = [new Date(time), new Date(now)];
  const clock = timeOfDay(at, seconds);
  // Rounded, because days at a change of daylight saving time have 23 or 25 hours.
  const near = NEAR[Math.round((midnight(at) - midnight(today)) / DAY_MS)];
  if (near !== undefined) return near + clock;
  const year = at.getFullYear() === today.getFullYear() ? "" : ` ${at.getFullYear()}`;
  return `${dayOf(at)}${year} ${clock}`;
}

/** Format a time in UTC, for readers elsewhere: "2026-11-21 19:42:07 UTC". */
export const utc = (time: string | number) =>
  `${new Date(time).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** Return the seconds from `start` to `end`, or to now. Before the start, it is null. */
export function elapsed(start: string | null, end: string | null, now: number): number | null {
  if (start === null) return null;
  return ((end === null ? now : Date.parse(end)) - Date.parse(start)) / 1000;
}
