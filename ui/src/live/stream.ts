import { connection } from "../api/service";

export type LiveState = "connecting" | "live" | "reconnecting" | "stale";

interface StreamOptions {
  /** URL of the stream. `position` is the id of the last event seen, null before the first. */
  url: (position: string | null) => string;
  /** Id of the event after which to begin; null: only future events. */
  from?: string | null;
  /** Handlers of the data by kind of event. Events without a name are of kind "message". */
  on: Record<string, (data: string) => void>;
  onState?: (state: LiveState) => void;
  /** The stream is open, for the first time or again. */
  onOpen?: () => void;
  /** The service refused the stream, perhaps because it requires a token. */
  onRefused?: () => void;
}

const STALE_MS = 10_000;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 15_000;
const HIDDEN_MS = 5_000;

/**
 * EventSource that never gives up.
 *
 * The browser's EventSource stays closed after an HTTP error, which a restarting proxy sends. Otherwise it retries at
 * times of its own. This one resumes from its last position as soon as the service is reachable.
 *
 * A hidden page opens no connection, or closes it. Over HTTP/1.1 a browser has six connections per origin, for all tabs
 * together.
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

  /** Reconnect from the last position, a while after the service is reachable. */
  reconnectSoon() {
    this.#disconnect();
    const waiting = new AbortController();
    this.#waiting = waiting;
    connection.back(waiting.signal).then(
      () => {
        this.#retry = window.setTimeout(() => this.#connect(), this.#retryMs);
        this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS);
      },
      () => {}, // no caller waits any more
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
      connection.failed(); // perhaps an outage: the connection's probe finds out
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
