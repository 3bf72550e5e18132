import { dayOf, timeOfDay } from "../format/time";
import { withEnds } from "./scale";

const DAY_S = 86_400;

/** Letter width in charts, and minimum gap between labels. The width is that of the widest common font. */
const [LETTER_PX, APART_PX] = [7.7, 14];

/** Return the maximum width of a label in pixels. It may have several lines. */
export const widthOf = (label: string) =>
  LETTER_PX * Math.max(...label.split("\n").map((line) => line.length));

/** Return the distance that labels need, in axis units. The axis is `wide` px wide. */
export const roomFor = (labels: readonly string[], length: number, wide: number) =>
  ((Math.max(0, ...labels.map(widthOf)) + APART_PX) * length) / wide;

/** Return round local times with both ends of the axis. Times are in epoch s, from `min` to `max`, `step` apart. */
export function timeTicks(min: number, max: number, step: number, wide: number): number[] {
  const ticks: number[] = [];
  if (step >= DAY_S) {
    const days = Math.round(step / DAY_S);
    const day = new Date(min * 1000);
    day.setHours(0, 0, 0, 0);
    for (; day.getTime() / 1000 <= max; day.setDate(day.getDate() + days)) ticks.push(day.getTime() / 1000);
  } else {
    const offset = new Date(min * 1000).getTimezoneOffset() * 60;
    const first = Math.ceil((min - offset) / step) * step + offset;
    for (let tick = first; tick <= max; tick += step) ticks.push(tick);
  }
  const labels = labelsWithEnds([min, ...ticks, max], step);
  // Labels without seconds would be the same for two ticks within a minute.
  const told = (tick: number) => (step < 60 ? tick : Math.floor(tick / 60));
  const between = ticks.filter((tick) => told(tick) !== told(min) && told(tick) !== told(max));
  return withEnds(between, min, max, roomFor(labels, max - min, wide));
}

/** Return round numbers from `min` to `max` with both ends, `step` apart. */
export function numberTicks(min: number, max: number, step: number, wide: number): number[] {
  const ticks = multiples(min, max, step);
  const labels = [min, ...ticks, max].map((tick) => numberLabel(tick, step));
  return withEnds(ticks, min, max, roomFor(labels, max - min, wide));
}

export function multiples(min: number, max: number, step: number): number[] {
  const first = Math.ceil(min / step);
  const count = Math.max(0, Math.floor(max / step) - first + 1);
  return Array.from({ length: count }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

/** Format a tick to one digit more than the step. Ends may lie between steps. */
export function numberLabel(tick: number, step: number): string {
  const digits = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(step))));
  return tick.toLocaleString("en", { maximumFractionDigits: Number.isInteger(tick) ? 0 : digits });
}

/** Return labels of a value axis. If `format` gives two ticks the same label, they get more digits. */
export function valueLabels(ticks: readonly number[], format: (value: number) => string): string[] {
  const labels = ticks.map(format);
  if (new Set(labels).size === labels.length) return labels;
  const step = Math.min(...ticks.slice(1).map((tick, index) => tick - (ticks[index] ?? 0)));
  return labels.map((label, index) => label.replace(/-?\d[\d.,]*/, numberLabel(ticks[index] ?? 0, step)));
}

/** Labels of a time axis. They show the time of day. The date appears where a day begins, or if ticks are days.
 * Ticks are epoch seconds. `both` joins date and time. */
export function timeLabels(
  ticks: readonly number[],
  both = (date: string, time: string) => `${date} ${time}`,
): string[] {
  const step = ticks.length > 1 ? (ticks[1] as number) - (ticks[0] as number) : DAY_S;
  let day = "";
  return ticks.map((tick) => {
    const at = new Date(tick * 1000);
    const today = dayOf(at);
    const isNew = today !== day;
    day = today;
    if (step >= DAY_S) return isNew ? today : "";
    const time = timeOfDay(at, step < 60);
    return isNew && tick !== ticks[0] ? both(today, time) : time;
  });
}

/** Return labels of ticks `step` apart, including the ends of the axis. The ends always have a label, the first one
 * with its day if there are several. A label has two lines: the time, and the day below it. */
export function labelsWithEnds(ticks: readonly number[], step: number): string[] {
  const days = ticks.map((tick) => dayOf(new Date(tick * 1000)));
  const several = days[0] !== days.at(-1);
  return ticks.map((tick, index) => {
    const end = index === 0 || index === ticks.length - 1;
    const isNew = index === 0 ? several : days[index] !== days[index - 1];
    const time = timeOfDay(new Date(tick * 1000), step < 60);
    if (step >= DAY_S && !end) return isNew ? `${days[index]}` : "";
    return isNew ? `${time}\n${days[index]}` : time;
  });
}
