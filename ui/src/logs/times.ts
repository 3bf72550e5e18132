import { dayOf } from "../format/time";

/** Divider between lines. */
export interface Divider {
  /** Number of the line after the divider. */
  line: number;
  kind: "attempt" | "day";
  attempt: number;
  rank: number;
  /** Time when that line was written, in seconds since the epoch; 0: unknown. */
  second: number;
}

/** Times of lines, stored as runs of lines with the same second. */
export class LineTimes {
  readonly #lines: number[] = [];
  readonly #seconds: number[] = [];

  /** Whether any line has a time. */
  known = false;

  /** Set the time from this line on. */
  add(line: number, second: number) {
    if (this.#lines.at(-1) === line) {
      this.#lines.pop();
      this.#seconds.pop();
    }
    if (this.#seconds.at(-1) === second) return;
    this.known ||= second > 0;
    this.#lines.push(line);
    this.#seconds.push(second);
  }

  /** Return the time of a line; 0: unknown. */
  of(line: number): number {
    return this.#seconds[this.#runOf(line)] ?? 0;
  }

  forget(before: number) {
    const gone = this.#runOf(before);
    if (gone > 0) {
      this.#lines.splice(0, gone);
      this.#seconds.splice(0, gone);
    }
  }

  #runOf(line: number): number {
    let low = -1;
    let high = this.#lines.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#lines[middle] as number) <= line) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Whether two times are on different days in local time. */
export function otherDay(one: number, other: number): boolean {
  return one > 0 && other > 0 && dayOf(new Date(one * 1000)) !== dayOf(new Date(other * 1000));
}
