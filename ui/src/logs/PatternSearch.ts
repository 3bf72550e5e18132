import type { LogBuffer } from "./LogBuffer";
import type { Search } from "./LogSearch";
import { lowerBound } from "./layout";
import type { Range } from "./marks";
import { Ended, type PatternWorker, TooSlow } from "./PatternWorker";

/** Maximum lines whose matches are cached. */
const MOST_KNOWN = 5_000;

/** Search for a user's regular expression, run in a worker thread. */
export class PatternSearch implements Search {
  readonly found: number[] = [];
  problem: "" | "slow" | "failed" = "";
  readonly #log: LogBuffer;
  readonly #wanted: RegExp;
  readonly #worker: PatternWorker;
  readonly #told: () => void;
  #next = 0;
  #busy = false;
  #ended = false;
  readonly #ranges = new Map<number, readonly Range[]>();
  /** Lines in view to search when the worker is free. */
  readonly #open = new Map<number, string>();

  /** `told` is called after each new result. */
  constructor(log: LogBuffer, wanted: RegExp, worker: PatternWorker, told: () => void) {
    this.#log = log;
    this.#wanted = wanted;
    this.#worker = worker;
    this.#told = told;
  }

  /** Search until all lines were searched. */
  async look(): Promise<void> {
    this.#ended = false;
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (!this.#ended && !this.problem && (await this.#step())) this.#told();
    } catch (error) {
      if (error instanceof Ended) return;
      this.problem = error instanceof TooSlow ? "slow" : "failed";
      this.#told();
    } finally {
      this.#busy = false;
    }
  }

  /** Stop the search. The running question gets no answer. */
  end() {
    this.#ended = true;
    if (this.#busy) this.#worker.end();
  }

  get done(): boolean {
    return this.#next >= this.#log.complete;
  }

  rangesOf(number: number, text: string): readonly Range[] {
    const known = this.#ranges.get(number);
    if (known) return known;
    if (!this.problem && number < this.#log.complete) this.#open.set(number, text);
    return NOWHERE;
  }

  viewed() {
    if (this.#open.size > 0) this.look();
  }

  /** Ask the worker one question, about lines in view first. Return false if there is none. */
  async #step(): Promise<boolean> {
    if (this.#open.size > 0) {
      const asked = [...this.#open];
      this.#open.clear();
      const answer = await this.#worker.ask({ wanted: this.#wanted, lines: asked.map(([, text]) => text) });
      if (this.#ranges.size > MOST_KNOWN) this.#ranges.clear();
      for (const [at, [number]] of asked.entries()) {
        if ("ranges" in answer) this.#ranges.set(number, answer.ranges[at] ?? NOWHERE);
      }
      return true;
    }
    this.#next = Math.max(this.#next, this.#log.dropped);
    const chunk = this.#log.chunkOf(this.#next);
    if (!chunk) return false;
    const first = this.#next;
    const from = chunk.starts[first - chunk.first] as number;
    const starts = Int32Array.from(chunk.starts.slice(first - chunk.first), (start) => start - from);
    const answer = await this.#worker.ask({ wanted: this.#wanted, text: chunk.text.slice(from), starts });
    if ("found" in answer) for (const at of answer.found) this.found.push(first + at);
    this.#next = first + starts.length;
    this.found.splice(0, lowerBound(this.found, this.#log.dropped));
    return true;
  }
}

const NOWHERE: readonly Range[] = [];
