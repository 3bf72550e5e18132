/** When the connection broke, and when it is tried again (epoch ms); `retryAt` is null while a try runs. */
export interface Outage {
  since: number;
  retryAt: number | null;
}

export interface ConnectionOptions {
  /** Whether the service answers. */
  probe: () => Promise<boolean>;
  now?: () => number;
}

/** How long the page waits before each try; the last counts for all that follow. */
const DELAYS_MS = [250, 1_000, 2_000, 4_000, 8_000, 15_000];

/**
 * Whether the service can be reached: one store for the whole page. Whoever finds that it can't says so and waits here;
 * one probe tries on behalf of all.
 */
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

  /** null while the service answers. */
  outage = () => this.#outage;

  /** A request ended without an answer of the service. */
  failed() {
    if (this.#outage) return;
    this.#tries = 0;
    this.#plan(this.#now());
  }

  /** The service answered. */
  succeeded() {
    if (!this.#outage) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#tell(null);
  }

  /** Does not wait for the time of the next try. */
  retryNow = () => {
    if (this.#outage?.retryAt == null) return;
    clearTimeout(this.#timer);
    void this.#try();
  };

  /** Ends when the service can be reached; rejects when `signal` is aborted before. */
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
    if (!this.#outage) return; // another request was answered meanwhile
    if (answered) this.succeeded();
    else this.#plan(began.since);
  }

  #tell(outage: Outage | null) {
    this.#outage = outage;
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Statuses of a proxy that finds no service behind it. */
const NOBODY_THERE = [502, 503, 504];

/** Whether an answer comes from something before the service, which itself explains every error as a problem. */
export function isNotOfTheService(answer: Pick<Response, "status" | "headers">): boolean {
  const kind = answer.headers.get("content-type") ?? "";
  return NOBODY_THERE.includes(answer.status) && !kind.startsWith("application/problem+json");
}

/** So often a request is made again though the service answers others. */
const TRIES = 3;

/** So long a change waits to be sent again: later, whoever asked for it may want it no more. */
const CHANGE_MS = 4_000;

/** What comes to the same however often it is asked for. */
const SAME_AGAIN = /\/(cancel|cordon|uncordon|drain)$|:preview$/;

/** How long a request that was not answered may wait to be made again; 0: it is made once. */
function patienceOf(request: Request): number {
  if (request.method === "GET") return Number.POSITIVE_INFINITY;
  const again = request.headers.has("Idempotency-Key") || SAME_AGAIN.test(new URL(request.url).pathname);
  return again ? CHANGE_MS : 0;
}

/** `fetch`, which makes a request that was not answered again once the service can be reached: what only reads, however
 * long that takes; what changes something only soon, and only if it does no harm twice. */
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

/** Whether the service can be reached again before `until`; rejects when `signal` is aborted before. */
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
