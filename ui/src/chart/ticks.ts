import { dayOf, timeOfDay } from "../format/time";
import { withEnds } from "./scale";

const DAY_S = 86_400;

/** Round times (epoch seconds) from `min` to `max`, `step` apart, by the local clock; with both ends among them. */
export function timeTicks(min: number, max: number, step: number, room: number): number[] {
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
  return withEnds(ticks, min, max, room);
}

/**
 * Labels of a time axis' ticks (epoch seconds): the time of day, and the date where a day begins or ticks are days.
 * `both` joins the two.
 */
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

/** The same for ticks that lie `step` apart, but for the first and the last, which are the ends of the axis: these are
 * always labelled, and the first with its day if there are several. Two lines: the time, and below it the day. */
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
