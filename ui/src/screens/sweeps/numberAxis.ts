import { logTicks, roundScale, ticksOf } from "../../chart/scale";
import { shownValue } from "../../sweeps/runs";

/** Axis of numbers: a number's position from 0 to 1, and ticks. */
export interface NumberAxis {
  place: (value: number) => number;
  ticks: { at: number; text: string }[];
}

/** Minimum ratio of largest to smallest value for a logarithmic axis. */
const LOG_FROM = 20;
/** Space at each end of a logarithmic axis, as a factor. The ends of such an axis are no ticks. */
const LOG_ROOM = 1.1;

/** Return an axis with at most `most` steps. Ticks are round numbers, or powers of ten for a large range. */
export function numberAxis(values: readonly number[], most: number): NumberAxis {
  const [low, high] = values.length > 0 ? [Math.min(...values), Math.max(...values)] : [null, null];
  if (low !== null && high !== null && low > 0 && high / low >= LOG_FROM) return logAxis(low, high, most);
  const { min, max, step } = roundScale(low, high, { fromZero: false, whole: false, most });
  const place = (value: number) => (value - min) / (max - min);
  return {
    place,
    ticks: ticksOf({ min, max, step }).map((tick) => ({ at: place(tick), text: shownValue(tick) })),
  };
}

function logAxis(low: number, high: number, most: number): NumberAxis {
  const [min, max] = [low / LOG_ROOM, high * LOG_ROOM];
  const place = (value: number) => Math.log(value / min) / Math.log(max / min);
  const [first, last] = [10 ** Math.floor(Math.log10(min)), 10 ** Math.ceil(Math.log10(max))];
  const ticks = logTicks(first, last, most).filter((tick) => tick >= min && tick <= max);
  return { place, ticks: ticks.map((tick) => ({ at: place(tick), text: shownValue(tick) })) };
}
