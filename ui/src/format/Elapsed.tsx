import { clock } from "./clock";
import { ago, duration, elapsed, relative, utc, when } from "./time";
import { useNow } from "./useNow";

/** A length of time that goes on until `end` is known. */
export function Elapsed({ start, end }: { start: string | null; end: string | null }) {
  const seconds = elapsed(start, end, useNow());
  return (
    <span style={{ fontVariantNumeric: "tabular-nums" }}>{seconds === null ? "–" : duration(seconds)}</span>
  );
}

/** How long ago; the time itself is its tooltip. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={`${when(at, now, true)}, ${utc(at)}`}>
      {ago(at, now)}
    </time>
  );
}

const MINUTE_MS = 60_000;

/** When something happened or will; how far that is from now, and the time in UTC, are its tooltip. */
export function When({ at, seconds = false }: { at: string; seconds?: boolean }) {
  // "yesterday" becomes wrong at midnight: a look a minute is enough, and many stand on one screen.
  const now = useNow(MINUTE_MS);
  return (
    <time dateTime={at} title={`${relative(Date.parse(at), clock.now())}, ${utc(at)}`}>
      {when(at, now, seconds)}
    </time>
  );
}
