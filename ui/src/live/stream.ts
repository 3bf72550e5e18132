import { connection } from "../api/service";

export type LiveState = "connecting" | "live" | "reconnecting" | "stale";

export interface StreamOptions {
  /** Where to listen; `position` is the id of the last event seen, null before the first. */
  url: (position: string | null) => string;
  /** What to do with the data of each kind of event ("message" is the one without a name). */
  /** The id of the event after which to begin; null: with those to come. */
  from?: string | null;
  on: Record<string, (data: string) => void>;
  onState?: (state: LiveState) => void;
  /** The stream is up, for the first time or again. */
  onOpen?: () => void;
  /** The service refused the stream: maybe it wants its token. */
  onRefused?: () => void;
}

const STALE_MS = 10_000;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 15_000;
const HIDDEN_MS = 5_000;

/**
 * An EventSource that does not give up. The browser's own stays closed after an HTTP error, which is what a restarting
 * proxy answers with, and else tries at times of its own; this one comes back from its last position as soon as the
 * service can be reached. A page that nobody looks at has no connection, or lets go of it: over HTTP/1.1 a browser
 * has six for one origin, for all tabs together.
 */
export class Stream {
  readonly #options: StreamOptions;
  #source: EventSource | null = null;
  #position: string | null = null;
  #retryMs = FIRST_RETRY_MS;
  #retry: number | undefined;
  #waiting: AbortController | null = null;
  #stale: number | undefined;
  #hide: number | undefined;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#position = options.from ?? null;
  }

  start() {
    document.addEventListener("visibilitychange", this.#onVisibility);
    if (!document.hidden) this.#connect();
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#onVisibility);
    window.clearTimeout(this.#hide);
    window.clearTimeout(this.#stale);
    this.#stale = undefined;
    this.#disconnect();
  }

  /** Connects again from the last position, a while after the service can be reached. */
  reconnectSoon() {
    this.#disconnect();
    const waiting = new AbortController();
    this.#waiting = waiting;
    connection.back(waiting.signal).then(
      () => {
        this.#retry = window.setTimeout(() => this.#connect(), this.#retryMs);
        this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS);
      },
      () => {}, // nobody waits any more
    );
  }

  #connect() {
    const source = new EventSource(this.#options.url(this.#position));
    this.#source = source;
    this.#options.onState?.("connecting");
    this.#expectSoon();
    source.onopen = () => {
      window.clearTimeout(this.#stale);
      this.#stale = undefined;
      connection.succeeded();
      this.#options.onState?.("live");
      this.#options.onOpen?.();
    };
    source.onerror = () => {
      if (this.#stale === undefined) this.#options.onState?.("reconnecting");
      this.#expectSoon();
      if (source.readyState === EventSource.CLOSED) this.#options.onRefused?.();
      connection.failed(); // perhaps: the connection finds out
      this.reconnectSoon();
    };
    for (const [kind, handle] of Object.entries(this.#options.on)) {
      source.addEventListener(kind, (event: MessageEvent<string>) => {
        this.#retryMs = FIRST_RETRY_MS;
        if (event.lastEventId) this.#position = event.lastEventId;
        handle(event.data);
      });
    }
  }

  #disconnect() {
    this.#waiting?.abort();
    window.clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = null;
  }

  #expectSoon() {
    this.#stale ??= window.setTimeout(() => this.#options.onState?.("stale"), STALE_MS);
  }

  #onVisibility = () => {
    window.clearTimeout(this.#hide);
    if (document.hidden) {
      this.#hide = window.setTimeout(() => this.#disconnect(), HIDDEN_MS);
    } else if (this.#source === null) {
      this.#disconnect();
      this.#connect();
    }
  };
}
