import type { LogBuffer } from "./LogBuffer";
import { lowerBound } from "./layout";
import { type Range, rangesIn } from "./marks";

const SPECIAL = /[.*+?^${}()|[\]\\]/g;

/** Maximum length of a search pattern. */
const LONGEST = 200;

/** Return a case-insensitive RegExp, or null. null means an empty, too long or invalid query. */
export function patternOf(query: string, regular: boolean): RegExp | null {
  if (query === "" || query.length > LONGEST) return null;
  try {
    return new RegExp(regular ? query : query.replace(SPECIAL, "\\$&"), "gim");
  } catch {
    return null;
  }
}

/** Log levels as loggers write them, and words that end a training. */
export const BAD = /\b(ERROR|CRITICAL|FATAL)\b|^Traceback |^\w*(Error|Exception)\b/gm;

export interface Search {
  /** Numbers of matching lines in order, counted from the first line ever. */
  readonly found: readonly number[];
  /** Whether all complete lines were searched. */
  readonly done: boolean;
  /** Reason for giving up. */
  readonly problem: "" | "slow" | "failed";
  /** Return the matches in a line, as far as known yet. */
  rangesOf(number: number, text: string): readonly Range[];
  /** Report that lines were drawn and asked for their matches. */
  viewed(): void;
}

/** Maximum lines whose matches are cached. */
const MOST_KNOWN = 5_000;

/** Search for matching lines of a log, done in slices. A million lines take longer than a frame. The search
 * continues piece by piece, and also when new lines arrive. It searches a line once it is complete. */
export class LogSearch implements Search {
  readonly problem = "";
  readonly found: number[] = [];
  readonly #log: LogBuffer;
  readonly #wanted: RegExp;
  #next = 0;
  readonly #ranges = new Map<number, readonly Range[]>();

  /** `wanted` needs the global flag, to be asked for the next match. */
  constructor(log: LogBuffer, wanted: RegExp) {
    this.#log = log;
    this.#wanted = new RegExp(wanted);
  }

  /** Search for at most `ms`. Return true once all lines were searched. */
  advance(ms: number, now: () => number = () => performance.now()): boolean {
    const log = this.#log;
    this.#forget(log.dropped);
    const until = now() + ms;
    this.#next = Math.max(this.#next, log.dropped);
    while (this.#next < log.complete) {
      this.#lookThroughChunk();
      if (now() >= until) break;
    }
    return this.done;
  }

  get done(): boolean {
    return this.#next >= this.#log.complete;
  }

  rangesOf(number: number, text: string): readonly Range[] {
    let ranges = this.#ranges.get(number);
    if (!ranges) {
      ranges = rangesIn(text, this.#wanted);
      if (this.#ranges.size > MOST_KNOWN) this.#ranges.clear();
      if (number < this.#log.complete) this.#ranges.set(number, ranges);
    }
    return ranges;
  }

  viewed() {} // all matches are known at once

  /** Search from `#next` to the end of its chunk. */
  #lookThroughChunk() {
    const chunk = this.#log.chunkOf(this.#next);
    if (!chunk) return;
    const { text, starts, first } = chunk;
    let line = this.#next - first;
    this.#wanted.lastIndex = starts[line] as number;
    for (let match = this.#wanted.exec(text); match; match = this.#wanted.exec(text)) {
      while ((starts[line + 1] ?? Number.POSITIVE_INFINITY) <= match.index) line++;
      this.found.push(first + line);
      const next = starts[++line];
      if (next === undefined) break;
      this.#wanted.lastIndex = next;
    }
    this.#next = first + starts.length;
  }

  #forget(before: number) {
    this.found.splice(0, lowerBound(this.found, before));
  }
}
