const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
] as const;

/** A length of time in its largest units, two of them or `most`: "45 s", "3 m 20 s", "2 d 4 h". */
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

/** How far a time is from now, in one unit: "just now", "5 m ago", "in 3 d". */
export function relative(at: number, now: number): string {
  const seconds = (at - now) / 1000;
  if (Math.abs(seconds) < 10) return "just now";
  return seconds < 0 ? `${duration(-seconds, 1)} ago` : `in ${duration(seconds, 1)}`;
}

/** How long ago; a clock that runs ahead is no future. */
export const ago = (iso: string, now: number) => relative(Math.min(Date.parse(iso), now), now);

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (value: number) => String(value).padStart(2, "0");

/** The local time of day: "14:02", or "14:02:10". */
export function timeOfDay(at: Date, seconds = false): string {
  return `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
}

/** A local day: "19 Nov". */
export const dayOf = (at: Date) => `${at.getDate()} ${MONTHS[at.getMonth()]}`;

/** The same in UTC. */
export const utcDayOf = (at: Date) => `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;

const DAY_MS = 86_400_000;
const midnight = (at: Date) => new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
const NEAR: Record<number, string> = { [-1]: "yesterday ", 0: "", 1: "tomorrow " };

/** A time as people write it, local and of 24 hours: "14:02", "yesterday 14:02", "19 Nov 14:02", "19 Nov 2025 14:02".
 * By hand, since `Intl` takes longer to get ready than a screen to be drawn. */
export function when(time: string | number, now: number, seconds = false): string {
  const [at, today] = [new Date(time), new Date(now)];
  const clock = timeOfDay(at, seconds);
  // Rounded: summer time makes days of 23 and 25 hours.
  const near = NEAR[Math.round((midnight(at) - midnight(today)) / DAY_MS)];
  if (near !== undefined) return near + clock;
  const year = at.getFullYear() === today.getFullYear() ? "" : ` ${at.getFullYear()}`;
  return `${dayOf(at)}${year} ${clock}`;
}

/** The same time for whoever is elsewhere: "2026-11-21 19:42:07 UTC". */
export const utc = (time: string | number) =>
  `${new Date(time).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** Seconds from `start` to `end`, or to now while there is no end; null before the start. */
export function elapsed(start: string | null, end: string | null, now: number): number | null {
  if (start === null) return null;
  return ((end === null ? now : Date.parse(end)) - Date.parse(start)) / 1000;
}
