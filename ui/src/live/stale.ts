import { keys } from "../api/keys";
import type { ServiceEvent } from "../api/types";

export type QueryKey = readonly string[];

/** Return the keys of queries that an event makes stale. */
export function staleAfter(event: Pick<ServiceEvent, "kind" | "job_id">): QueryKey[] {
  const found: QueryKey[] = [];
  if (event.job_id) {
    found.push(
      [keys.jobs],
      [keys.job, event.job_id],
      [keys.jobEvents, event.job_id],
      [keys.hosts],
      [keys.cluster],
    );
  }
  if (/^(host|gpu)\./.test(event.kind)) found.push([keys.hosts], [keys.cluster]);
  if (/^host\.(window_|maintenance|active)/.test(event.kind)) found.push([keys.maintenance], [keys.timeline]);
  if (event.kind.startsWith("sweep.")) found.push([keys.sweeps]);
  if (event.kind.startsWith("schedule.") || event.kind === "job.queued") found.push([keys.schedules]);
  if (event.kind.startsWith("webhook.")) found.push([keys.webhooks]);
  if (event.kind.startsWith("token.")) found.push([keys.tokens]);
  if (event.kind.startsWith("policy.")) found.push([keys.policy], [keys.policyHistory]);
  return found;
}

/** Return the keys of stale queries that can wait. Their data is large, or aggregated over everything. It need not
 * be fetched again at every event. */
export function slowlyStaleAfter(event: Pick<ServiceEvent, "kind" | "job_id">): QueryKey[] {
  const history: QueryKey[] = event.job_id
    ? [[keys.timeline], [keys.usage], [keys.failures], [keys.sweeps]]
    : [];
  return [...history, [keys.events]];
}

/** Collector of query keys that delivers them at most once per interval. The first keys are delivered at once, the
 * others at the end of the interval. A thousand jobs that end in one second cost one refetch, not a thousand. */
export class Collector {
  readonly #deliver: (keys: QueryKey[]) => void;
  readonly #intervalMs: number;
  #waiting = new Map<string, QueryKey>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(deliver: (keys: QueryKey[]) => void, intervalMs: number) {
    this.#deliver = deliver;
    this.#intervalMs = intervalMs;
  }

  add(found: QueryKey[]) {
    for (const key of found) this.#waiting.set(key.join(" "), key);
    if (this.#timer === undefined) this.#flush();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting.clear();
  }

  #flush = () => {
    this.#timer = undefined;
    if (this.#waiting.size === 0) return;
    const found = [...this.#waiting.values()];
    this.#waiting.clear();
    this.#deliver(found);
    this.#timer = setTimeout(this.#flush, this.#intervalMs);
  };
}
