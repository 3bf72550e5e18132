/** Connection outage: its start and next retry in epoch ms. `retryAt` is null while a retry runs. */
export interface Outage {
  since: number;
  retryAt: number | null;
}

interface ConnectionOptions {
  /** Whether the service replies. */
  probe: () => Promise<boolean>;
  now?: () => number;
}

/** Wait before each retry. The last value applies to all further retries. */
const DELAYS_MS = [250, 1_000, 2_000, 4_000, 8_000, 15_000];

/** Reachability of the service, one store for the whole page. Code whose request fails reports it and waits here.
 * One probe runs on behalf of all. */
export class Connection {
  readonly #probe: () => Promise<boolean>;
  readonly #now: () => number;
  readonly #listeners = new Set<() => void>();
  #outage: Outage | null = null;
  #tries = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor({ probe, now = Date.now }: ConnectionOptions) {
    this.#probe = probe;
    this.#now = now;
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  /** Return the current outage, or null while the service replies. */
  outage = () => this.#outage;

  /** Report that a request ended without a reply from the service. */
  failed() {
    if (this.#outage) return;
    this.#tries = 0;
    this.#plan(this.#now());
  }

  /** Report that the service replied. */
  succeeded() {
    if (!this.#outage) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#tell(null);
  }

  /** Retry now instead of at the scheduled time. */
  retryNow = () => {
    if (this.#outage?.retryAt == null) return;
    clearTimeout(this.#timer);
    void this.#try();
  };

  /** Wait until the service is reachable. Reject if `signal` is aborted before. */
  back(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      if (!this.#outage) return resolve();
      const onAbort = () => {
        stop();
        reject(signal?.reason);
      };
      const stop = this.subscribe(() => {
        if (this.#outage) return;
        stop();
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  #plan(since: number) {
    const wait = DELAYS_MS[Math.min(this.#tries, DELAYS_MS.length - 1)] as number;
    this.#tries += 1;
    this.#timer = setTimeout(() => void this.#try(), wait);
    this.#tell({ since, retryAt: this.#now() + wait });
  }

  async #try() {
    const began = this.#outage;
    if (!began) return;
    this.#tell({ since: began.since, retryAt: null });
    const answered = await this.#probe().catch(() => false);
    if (!this.#outage) return; // another request got a reply meanwhile
    if (answered) this.succeeded();
    else this.#plan(began.since);
  }

  #tell(outage: Outage | null) {
    this.#outage = outage;
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Status codes of a proxy that reaches no service. */
const NOBODY_THERE = [502, 503, 504];

/** Whether a reply comes from a proxy in front of the service. The service itself describes every error as a problem
 * document. */
export function isNotOfTheService(answer: Pick<Response, "status" | "headers">): boolean {
  const kind = answer.headers.get("content-type") ?? "";
  return NOBODY_THERE.includes(answer.status) && !kind.startsWith("application/problem+json");
}

/** Maximum attempts for a request while the service replies to others. */
const TRIES = 3;

/** Maximum wait before a change is sent again. After longer, the user may no longer want it. */
const CHANGE_MS = 4_000;

/** Endpoints with the same result however often they are called. */
const SAME_AGAIN = /\/(cancel|cordon|uncordon|drain)$|:preview$/;

/** Return the maximum wait for a retry in ms; 0: no retry. */
function patienceOf(request: Request): number {
  if (request.method === "GET") return Number.POSITIVE_INFINITY;
  const again = request.headers.has("Idempotency-Key") || SAME_AGAIN.test(new URL(request.url).pathname);
  return again ? CHANGE_MS : 0;
}

/** Wrap `fetch` to retry unanswered requests once the service is reachable. Reads are retried however long that
 * takes. Changes are retried only soon, and only if a repetition does no harm. */
export function patientFetch(
  connection: Connection,
  send: (request: Request) => Promise<Response> = (request) => fetch(request),
): (request: Request) => Promise<Response> {
  return async (request) => {
    const patience = patienceOf(request);
    const until = Date.now() + patience;
    for (let tried = 1; ; tried++) {
      const answer = await send(patience > 0 ? request.clone() : request).catch((error: unknown) => {
        if (request.signal.aborted) throw error;
        return error as Error;
      });
      const lost = answer instanceof Error || isNotOfTheService(answer);
      if (!lost) {
        connection.succeeded();
        return answer;
      }
      connection.failed();
      if (patience > 0 && tried < TRIES && (await isBack(connection, request.signal, until))) continue;
      if (answer instanceof Error) throw answer;
      return answer;
    }
  };
}

/** Whether the service becomes reachable before `until`. Reject if `signal` is aborted before. */
async function isBack(connection: Connection, signal: AbortSignal, until: number): Promise<boolean> {
  if (until === Number.POSITIVE_INFINITY) return connection.back(signal).then(() => true);
  const late = AbortSignal.timeout(Math.max(0, until - Date.now()));
  try {
    await connection.back(AbortSignal.any([signal, late]));
    return true;
  } catch (error) {
    if (signal.aborted) throw error;
    return false;
  }
}
