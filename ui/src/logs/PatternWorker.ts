import type { Answer, Question } from "./marks";

/** So long an answer may take. One about 128 KiB of lines takes some milliseconds. */
export const LIMIT_MS = 1_000;
/** An answer that came while the page was busy is heard before its lateness is. */
const GRACE_MS = 100;

export class TooSlow extends Error {}
/** Nobody waits for the answer any more. */
export class Ended extends Error {}

/** As much of a `Worker` as is used. */
export interface Thread {
  onmessage: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(message: unknown): void;
  terminate(): void;
}

const newThread = (): Thread =>
  new Worker(new URL("./pattern.worker.ts", import.meta.url), { type: "module" });

/** A thread that looks for a regular expression, one question at a time. It is ended when an answer takes too long; the
 * next question begins another one. */
export class PatternWorker {
  readonly #make: () => Thread;
  readonly #limitMs: number;
  #thread: Thread | null = null;
  #waiting: ((error: Error) => void) | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(make: () => Thread = newThread, limitMs = LIMIT_MS) {
    this.#make = make;
    this.#limitMs = limitMs;
  }

  /** Rejects with TooSlow, with Ended, or with what else is wrong. */
  ask(question: Question): Promise<Answer> {
    const next = this.#last.then(async () => {
      const thread = this.#thread ?? (await this.#begin());
      return this.#hear<Answer>(thread, () => thread.postMessage(question), this.#limitMs);
    });
    this.#last = next.catch(() => {});
    return next;
  }

  /** Ends the thread, whatever it is at. */
  end() {
    this.#fail(new Ended());
  }

  async #begin(): Promise<Thread> {
    const thread = this.#make();
    this.#thread = thread;
    // Without a limit: a busy machine takes a while to start it.
    await this.#hear(thread, () => {}, null);
    return thread;
  }

  /** The next message of the thread. */
  #hear<Message>(thread: Thread, then: () => void, limitMs: number | null): Promise<Message> {
    return new Promise((resolve, reject) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const over = () => {
        clearTimeout(timer);
        this.#waiting = null;
      };
      if (limitMs !== null) {
        timer = setTimeout(() => {
          timer = setTimeout(() => this.#fail(new TooSlow()), GRACE_MS);
        }, limitMs);
      }
      thread.onmessage = ({ data }: MessageEvent<Message>) => {
        over();
        resolve(data);
      };
      thread.onerror = (event) => this.#fail(new Error(event.message));
      this.#waiting = (error) => {
        over();
        reject(error);
      };
      then();
    });
  }

  #fail(error: Error) {
    this.#thread?.terminate();
    this.#thread = null;
    this.#waiting?.(error);
  }
}
