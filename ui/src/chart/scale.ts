/** Ends of an axis, and the distance between its ticks. */
interface Scale {
  min: number;
  max: number;
  step: number;
}

const STEPS = [1, 2, 2.5, 5, 10];

/** Return a round number of at least `least`. Round numbers are 1, 2, 2.5 or 5 times a power of ten. */
export function roundStep(least: number, whole = false): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const step = (STEPS.find((each) => each * power >= least * (1 - 1e-9)) ?? 10) * power;
  return whole ? Math.max(1, Math.ceil(step)) : step;
}

/** Return an axis of round numbers around the values. It has at most `most` steps, and its first and last tick are
 * its ends. */
export function roundScale(
  low: number | null,
  high: number | null,
  { fromZero, whole, most }: { fromZero: boolean; whole: boolean; most: number },
): Scale {
  if (low === null || high === null) return { min: 0, max: 1, step: 1 };
  const from = fromZero ? Math.min(0, low) : low;
  const to = fromZero ? Math.max(0, high) : high;
  const reach = to - from || Math.abs(to) || 1;
  for (let least = reach / most; ; least *= 1.2) {
    const step = roundStep(least, whole);
    const min = Math.floor(from / step + 1e-9) * step;
    let max = Math.ceil(to / step - 1e-9) * step;
    if (max === min) max += step;
    if ((max - min) / step <= most + 1e-9) return { min, max, step };
  }
}

/** Return the ticks from `min` to `max` by `step`, both included. */
export function ticksOf({ min, max, step }: Scale): number[] {
  const count = Math.round((max - min) / step);
  return Array.from({ length: count + 1 }, (_, at) => Number((min + at * step).toPrecision(12)));
}

/** Return the powers of ten around the values. `low` is above 0. */
export function logBounds(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null || low <= 0) return [0.1, 1];
  const [from, to] = [Math.floor(Math.log10(low) + 1e-9), Math.ceil(Math.log10(high) - 1e-9)];
  return [10 ** from, 10 ** Math.max(to, from + 1)];
}

/** Return powers of ten, at most `most` steps of them. If there are few, their multiples by 2 and 5 are added. */
export function logTicks(min: number, max: number, most: number): number[] {
  const [from, to] = [Math.round(Math.log10(min)), Math.round(Math.log10(max))];
  const step = Math.ceil((to - from) / most);
  const ticks: number[] = [];
  for (let power = from; power < to; power += step) {
    ticks.push(10 ** power);
    if (step === 1 && 3 * (to - from) <= most) ticks.push(2 * 10 ** power, 5 * 10 ** power);
  }
  return [...ticks, 10 ** to].map((tick) => Number(tick.toPrecision(12)));
}

/** Return ticks with both ends of the axis, at least `room` apart. Ticks between give way to the ends. Without space
 * for both ends, the last one stays. */
export function withEnds(ticks: readonly number[], min: number, max: number, room: number): number[] {
  if (max <= min) return [min];
  if (max - min < room) return [max];
  const kept = [min];
  for (const tick of ticks) {
    if (tick - (kept.at(-1) ?? min) >= room * (1 - 1e-9) && max - tick >= room) kept.push(tick);
  }
  return [...kept, max];
}
