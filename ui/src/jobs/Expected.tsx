import type { Eta } from "../api/types";
import { duration, relative, utc, when } from "../format/time";
import { useNow } from "../format/useNow";

/** Style that keeps "in 9 m" on one line. */
const WHOLE = { whiteSpace: "nowrap" } as const;

/** Sentence for a job for which `neverRuns` is true. */
export const CANT_RUN = "It can't run with this cluster and these quotas.";

/** Whether a job can't start even after other jobs end. */
export function neverRuns(eta: Eta | null): boolean {
  return eta !== null && !(eta.start || eta.end || eta.not_before || eta.awaits_image);
}

/** Predicted start of a waiting job; nothing if unknown. */
export function Starts({ eta }: { eta: Eta | null }) {
  const now = useNow();
  if (!eta?.start) return null;
  return (
    <time dateTime={eta.start} title={exactly(eta.start, now)} style={WHOLE}>
      {`start ${until(eta.start, now)}`}
    </time>
  );
}

const BASIS = {
  progress: "by the progress that it reports",
  log: "by the progress in its log",
  family: "by the run times of other jobs of its family",
  guess: "a guess: it reports no progress, and no job of its family has ended",
};

/** Predicted end of a job, with its bounds and basis. */
export function Ends({ eta }: { eta: Eta }) {
  const now = useNow();
  if (eta.awaits_image) {
    return <>at an unknown time: its image is being fetched</>;
  }
  if (!eta.end) {
    return eta.not_before ? <>not before {when(eta.not_before, now)}</> : <>at an unknown time</>;
  }
  const bounds =
    eta.earliest && eta.latest ? ` (${left(eta.earliest, now)} to ${left(eta.latest, now)})` : "";
  return (
    <>
      <time dateTime={eta.end} title={exactly(eta.end, now)}>
        {until(eta.end, now)}
      </time>
      {bounds}, {BASIS[eta.basis]}
    </>
  );
}

/** Return the predicted end of a job that holds GPUs. It is for lists, and never presents the time as certain. */
export function expectedEnd(eta: Pick<Eta, "end" | "basis">, now: number): string {
  if (!eta.end) return "";
  const at = `end about ${when(eta.end, now)}`;
  return eta.basis === "guess" ? `may ${at}, a guess` : `expected to ${at}`;
}

/** Format the time left: "now", "in 5 m". One unit, because no prediction is precise to two. */
function until(iso: string, now: number): string {
  const at = Date.parse(iso);
  return at - now < 10_000 ? "now" : relative(at, now);
}

const left = (iso: string, now: number) => duration((Date.parse(iso) - now) / 1000, 1);
const exactly = (iso: string, now: number) => `${when(iso, now, true)}, ${utc(iso)}`;
