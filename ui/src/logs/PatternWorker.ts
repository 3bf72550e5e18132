import type { Answer, Question } from "./marks";

/** Time limit of an answer. An answer about 128 KiB of lines takes some milliseconds. */
const LIMIT_MS = 1_000;
/** Extra time. An answer that arrived while the page was busy is handled before the timeout. */
const GRACE_MS = 100;

export class TooSlow extends Error {}
/** No caller waits for the answer any more. */
export class Ended extends Error {}

/** Used part of the `Worker` interface. */
export interface Thread {
  onmessage: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(message: unknown): void;
  terminate(): void;
}

const newThread = (): Thread =>
  new Worker(new URL("./pattern.worker.ts", import.meta.url), { type: "module" });

/** Worker thread that runs a regular expression, one question at a time. The thread is stopped when an answer takes
 * too long. The next question starts another one. */
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

  /** Ask one question. Reject with TooSlow, Ended or another error. */
  ask(question: Question): Promise<Answer> {
    const next = this.#last.then(async () => {
      const thread = this.#thread ?? (await this.#begin());
      return this.#hear<Answer>(thread, () => thread.postMessage(question), this.#limitMs);
    });
    this.#last = next.catch(() => {});
    return next;
  }

  /** Stop the thread, whatever it is doing. */
  end() {
    this.#fail(new Ended());
  }

  async #begin(): Promise<Thread> {
    const thread = this.#make();
    this.#thread = thread;
    // Starting has no time limit: a busy machine takes a while.
    await this.#hear(thread, () => {}, null);
    return thread;
  }

  /** Wait for the next message of the thread. */
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
