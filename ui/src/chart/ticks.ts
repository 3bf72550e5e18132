import { dayOf, timeOfDay } from "../format/time";

const DAY_S = 86_400;

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
