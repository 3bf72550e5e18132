/** Lines kept for the screen; whoever needs more downloads the log. */
export const MAX_LINES = 200_000;
/** A longer line is cut into several: browsers stall on lines of megabytes. */
export const MAX_LINE = 4_000;

// Built from its code because a literal control character in a pattern is more often a typo than meant.
const ESC = String.fromCharCode(27);
const ANSI = new RegExp(
  `${ESC}(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^${ESC}\\u0007]*(?:\\u0007|${ESC}\\\\)|[@-Z\\\\-_])`,
  "g",
);

/** What a terminal would show of one line: no escape sequences, and after a carriage return it starts anew. */
export function shown(raw: string): string {
  const text = raw.includes(ESC) ? raw.replace(ANSI, "") : raw;
  const end = text.endsWith("\r") ? text.length - 1 : text.length;
  const start = text.lastIndexOf("\r", end - 1) + 1;
  return start > 0 && start <= end ? text.slice(start, end) : text.slice(0, end);
}

/**
 * A log as lines, fed by pieces that end anywhere. Subscribers hear of it at most once in `notifyMs`, however fast the
 * pieces come.
 */
export class LogBuffer {
  readonly lines: string[] = [];
  /** Lines that are no longer kept: the number of the first one in `lines`. */
  dropped = 0;
  ended = false;
  #pending = "";
  #hasPartial = false;
  #version = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #listeners = new Set<() => void>();
  readonly #notifyMs: number;

  constructor(notifyMs = 80) {
    this.#notifyMs = notifyMs;
  }

  append(text: string) {
    if (this.#hasPartial) this.lines.pop();
    const pieces = (this.#pending + text).split("\n");
    this.#pending = pieces.pop() ?? "";
    for (const piece of pieces) this.#push(shown(piece));
    this.#shortenPending();
    const partial = shown(this.#pending);
    this.#hasPartial = partial !== "";
    if (this.#hasPartial) this.lines.push(partial);
    // Dropped in batches: taking one line off the front of a long array moves all others.
    const excess = this.lines.length - MAX_LINES;
    if (excess > MAX_LINES / 10) {
      this.lines.splice(0, excess);
      this.dropped += excess;
    }
    this.#changed();
  }

  end() {
    this.ended = true;
    this.#changed();
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Changes whenever subscribers are told. */
  version = () => this.#version;

  #push(line: string) {
    if (line.length <= MAX_LINE) {
      this.lines.push(line);
      return;
    }
    for (let at = 0; at < line.length; at += MAX_LINE) this.lines.push(line.slice(at, at + MAX_LINE));
  }

  /** A progress bar rewrites its line for hours, and a broken program writes no newline at all. */
  #shortenPending() {
    const restart = this.#pending.lastIndexOf("\r", this.#pending.length - 2);
    if (restart > 0) this.#pending = this.#pending.slice(restart);
    while (this.#pending.length > MAX_LINE) {
      this.lines.push(shown(this.#pending.slice(0, MAX_LINE)));
      this.#pending = this.#pending.slice(MAX_LINE);
    }
  }

  #changed() {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#version++;
      for (const listener of this.#listeners) listener();
    }, this.#notifyMs);
  }
}

/** Indices of the lines that contain `query`, in any case. */
export function matches(lines: readonly string[], query: string): number[] {
  const wanted = query.toLowerCase();
  const found: number[] = [];
  for (const [index, line] of lines.entries()) {
    if (line.toLowerCase().includes(wanted)) found.push(index);
  }
  return found;
}
