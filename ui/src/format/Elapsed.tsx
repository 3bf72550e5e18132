import { clock } from "./clock";
import { ago, duration, elapsed, relative, utc, when } from "./time";
import { useNow } from "./useNow";

/** Duration that grows until `end` is known. */
export function Elapsed({ start, end }: { start: string | null; end: string | null }) {
  const seconds = elapsed(start, end, useNow());
  return (
    <span style={{ fontVariantNumeric: "tabular-nums" }}>{seconds === null ? "–" : duration(seconds)}</span>
  );
}

/** Time since `at`, with the time itself as its tooltip. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={`${when(at, now, true)}, ${utc(at)}`}>
      {ago(at, now)}
    </time>
  );
}

const MINUTE_MS = 60_000;

/** Time of a past or future event. Its tooltip is the distance from now, and the time in UTC. */
export function When({ at, seconds = false }: { at: string; seconds?: boolean }) {
  // "yesterday" becomes wrong at midnight. An update per minute is enough, and a screen shows many.
  const now = useNow(MINUTE_MS);
  return (
    <time dateTime={at} title={`${relative(Date.parse(at), clock.now())}, ${utc(at)}`}>
      {when(at, now, seconds)}
    </time>
  );
}
