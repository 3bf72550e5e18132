/** GPUs of an allocation. */
export function gpusOf(allocation: Record<string, number>): number {
  return Object.values(allocation).reduce((sum, gpus) => sum + gpus, 0);
}

const SAME = 0.005;

/** How much `then` differs from `now`, where less is better. */
export function compared(
  now: number | null,
  then: number | null,
): { text: string; better: boolean | undefined } {
  if (now === null || then === null) return { text: "–", better: undefined };
  const change = now === 0 ? (then === 0 ? 0 : Number.POSITIVE_INFINITY) : (then - now) / now;
  if (Math.abs(change) < SAME) return { text: "the same", better: undefined };
  if (!Number.isFinite(change)) return { text: "more", better: false };
  const percent = Math.abs(change) * 100;
  return {
    text: `${change < 0 ? "−" : "+"}${percent < 10 ? percent.toFixed(1) : Math.round(percent)}%`,
    better: change < 0,
  };
}
