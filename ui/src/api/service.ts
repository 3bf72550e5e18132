import { clock } from "../format/clock";
import { Connection, isNotOfTheService } from "./connection";

const PROBE_MS = 5_000;

/** Asks for what costs the service nothing and needs no token. A service in trouble answers, and says so; a standby does not work. */
async function probe(): Promise<boolean> {
  const answer = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(PROBE_MS) });
  if (answer.ok || isNotOfTheService(answer)) return answer.ok;
  const problem = (await answer.json()) as { code?: string };
  return problem.code !== "standby";
}

/** The page's one connection. */
export const connection = new Connection({ probe, now: clock.now });

// After these a try may succeed at once.
window.addEventListener("online", connection.retryNow);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) connection.retryNow();
});
