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

/** The local date and time, to the second. */
export function moment(iso: string): string {
  return new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** Seconds from `start` to `end`, or to now while there is no end; null before the start. */
export function elapsed(start: string | null, end: string | null, now: number): number | null {
  if (start === null) return null;
  return ((end === null ? now : Date.parse(end)) - Date.parse(start)) / 1000;
}
