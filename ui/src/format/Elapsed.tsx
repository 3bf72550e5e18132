import { ago, duration, elapsed, moment } from "./time";
import { useNow } from "./useNow";

/** A length of time that goes on until `end` is known. */
export function Elapsed({ start, end }: { start: string | null; end: string | null }) {
  const seconds = elapsed(start, end, useNow());
  return (
    <span style={{ fontVariantNumeric: "tabular-nums" }}>{seconds === null ? "–" : duration(seconds)}</span>
  );
}

/** How long ago; the exact time is its tooltip. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={moment(at)}>
      {ago(at, now)}
    </time>
  );
}
