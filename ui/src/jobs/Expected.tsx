import type { Eta } from "../api/types";
import { duration, moment } from "../format/time";
import { useNow } from "../format/useNow";

/** When a job that waits is expected to start; nothing where that is not known. */
export function Starts({ eta }: { eta: Eta | null }) {
  const now = useNow();
  if (!eta?.start) return null;
  const left = (Date.parse(eta.start) - now) / 1000;
  return <time dateTime={eta.start} title={moment(eta.start)}>{`starts ${within(left)}`}</time>;
}

const BASIS = {
  progress: "by the progress that it reports",
  family: "by how long other jobs of its family took",
  guess: "a guess: it reports no progress, and no job of its family has ended",
};

/** When a job is expected to end, between which bounds, and on what that rests. */
export function Ends({ eta }: { eta: Eta }) {
  const now = useNow();
  if (eta.awaits_image) {
    return <>at a time not known yet: its image is being fetched</>;
  }
  if (!eta.end) {
    return eta.not_before ? (
      <>not before {moment(eta.not_before)}</>
    ) : (
      <>never, as the cluster stands: it can't run</>
    );
  }
  const bounds =
    eta.earliest && eta.latest ? `, between ${until(eta.earliest, now)} and ${until(eta.latest, now)}` : "";
  return (
    <>
      <time dateTime={eta.end} title={moment(eta.end)}>
        {until(eta.end, now)}
      </time>
      {bounds}; {BASIS[eta.basis]}
    </>
  );
}

function until(iso: string, now: number): string {
  return within((Date.parse(iso) - now) / 1000);
}

/** "now", "in 5m": one unit, since no prediction is good to two. */
function within(seconds: number): string {
  return seconds < 10 ? "now" : `in ${duration(seconds).split(" ")[0]}`;
}
