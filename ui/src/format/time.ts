const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
] as const;

/** The two largest units of a number of seconds: "45s", "3m 20s", "2d 4h". */
export function duration(seconds: number): string {
  let rest = Math.max(0, Math.floor(seconds));
  const first = UNITS.findIndex(([, size]) => rest >= size);
  if (first < 0) return "0s";
  const parts: string[] = [];
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.join(" ");
}

/** How long ago, in its largest unit: "just now", "5m ago", "3d ago". */
export function ago(iso: string, now: number): string {
  const seconds = (now - Date.parse(iso)) / 1000;
  if (seconds < 10) return "just now";
  return `${duration(seconds).split(" ")[0]} ago`;
}

/** The local date and time, to the second: "2026-11-21 19:42:07". By hand, since `Intl` takes longer to get ready than
 * a screen to be drawn. */
export function moment(iso: string): string {
  const at = new Date(iso);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Seconds from `start` to `end`, or to now while there is no end; null before the start. */
export function elapsed(start: string | null, end: string | null, now: number): number | null {
  if (start === null) return null;
  return ((end === null ? now : Date.parse(end)) - Date.parse(start)) / 1000;
}

/** The local time of day, with the date unless it is today's: "14:02:10". */
export function since(at: number, now: number): string {
  const [day, time] = moment(new Date(at).toISOString()).split(" ") as [string, string];
  return moment(new Date(now).toISOString()).startsWith(day) ? time : `${day} ${time}`;
}
