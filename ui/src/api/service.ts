import { clock } from "../format/clock";
import { Connection, isNotOfTheService } from "./connection";

const PROBE_MS = 5_000;

/** Check the service with a cheap request that needs no token. A service in trouble still replies and says so. A
 * standby instance counts as unreachable. */
async function probe(): Promise<boolean> {
  const answer = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(PROBE_MS) });
  if (answer.ok || isNotOfTheService(answer)) return answer.ok;
  const problem = (await answer.json()) as { code?: string };
  return problem.code !== "standby";
}

/** The page's only connection. */
export const connection = new Connection({ probe, now: clock.now });

// A retry may succeed at once after these events.
window.addEventListener("online", connection.retryNow);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) connection.retryNow();
});
