import type { LogBuffer } from "./LogBuffer";
import { lowerBound } from "./layout";
import { type Range, rangesIn } from "./marks";

const SPECIAL = /[.*+?^${}()|[\]\\]/g;

/** The longest pattern that is searched for. */
const LONGEST = 200;

/** What finds a text, or a regular expression, in any case; null: there is nothing to find, or it is no expression. */
export function patternOf(query: string, regular: boolean): RegExp | null {
  if (query === "" || query.length > LONGEST) return null;
  try {
    return new RegExp(regular ? query : query.replace(SPECIAL, "\\$&"), "gim");
  } catch {
    return null;
  }
}

/** Levels as loggers write them, and the words that end a training. */
export const BAD = /\b(ERROR|CRITICAL|FATAL)\b|^Traceback |^\w*(Error|Exception)\b/gm;

export interface Search {
  /** Numbers of lines, counted from the first that there ever was; in their order. */
  readonly found: readonly number[];
  /** Whether it has looked at all lines that are complete. */
  readonly done: boolean;
  /** Why it was given up. */
  readonly problem: "" | "slow" | "failed";
  /** Where a line matches, as far as that is known yet. */
  rangesOf(number: number, text: string): readonly Range[];
  /** Lines were drawn, and their ranges asked for. */
  viewed(): void;
}

/** Lines whose matches are remembered. */
const MOST_KNOWN = 5_000;

/**
 * Which lines of a log match. A million lines take longer than a frame may: it looks on piece by
 * piece, and again where it stopped when there are more. A line is looked at once it is complete.
 */
export class LogSearch implements Search {
  readonly problem = "";
  readonly found: number[] = [];
  readonly #log: LogBuffer;
  readonly #wanted: RegExp;
  #next = 0;
  readonly #ranges = new Map<number, readonly Range[]>();

  /** `wanted` is global: it is asked for the next match. */
  constructor(log: LogBuffer, wanted: RegExp) {
    this.#log = log;
    this.#wanted = new RegExp(wanted);
  }

  /** Looks on for `ms` at most; true if it has seen all that there is. */
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

  viewed() {} // all is known at once

  /** From `#next` to the end of the chunk that it is in. */
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
