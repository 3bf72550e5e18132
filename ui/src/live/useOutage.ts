import { useEffect, useState, useSyncExternalStore } from "react";
import type { Outage } from "../api/connection";
import { connection } from "../api/service";

/** Minimum outage to report. A request that breaks off and is retried is not an outage. */
const BRIEF_MS = 1_000;

/** Return the present outage once it has lasted `BRIEF_MS`, else null. */
export function useOutage(): Outage | null {
  const outage = useSyncExternalStore(connection.subscribe, connection.outage);
  const [lasting, setLasting] = useState<number | null>(null);
  const since = outage?.since ?? null;
  useEffect(() => {
    if (since === null) return;
    const timer = setTimeout(() => setLasting(since), BRIEF_MS);
    return () => clearTimeout(timer);
  }, [since]);
  return outage !== null && lasting === since ? outage : null;
}
