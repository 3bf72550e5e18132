import { useEffect, useState, useSyncExternalStore } from "react";
import type { Outage } from "../api/connection";
import { connection } from "../api/service";

/** A request that is cut off and made again is no outage. */
const BRIEF_MS = 1_000;

/** The outage that there is, once it has lasted a moment; else null. */
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
