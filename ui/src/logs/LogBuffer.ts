/** Lines kept for the screen; whoever needs more downloads the log. */
export const MAX_LINES = 1_000_000;
/** A longer line is cut into several: browsers stall on lines of megabytes. */
export const MAX_LINE = 4_000;
/** A million strings would keep the garbage collector busy for longer than a frame; some thousand do not. */
const CHUNK = 64 * 1024;

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

/** Complete lines, together in one text. */
export interface Chunk {
  /** Number of its first line, counted from the first that there ever was. */
  readonly first: number;
  text: string;
  /** Where its lines begin; each ends with a newline, or where the next begins if it was cut. */
  readonly starts: number[];
}

/**
 * A log as lines, fed by pieces that end anywhere. Subscribers hear of it at most once in `notifyMs`, however fast the
 * pieces come. Lines are numbered from the first that there ever was.
 */
export class LogBuffer {
  /** Number of the first line that is still kept. */
  dropped = 0;
  ended = false;
  /** Number of the first line that may still change. */
  complete = 0;
  readonly #chunks: Chunk[] = [];
  #pending = "";
  #partial = "";
  #version = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #listeners = new Set<() => void>();
  readonly #notifyMs: number;

  constructor(notifyMs = 80) {
    this.#notifyMs = notifyMs;
  }

  /** How many lines are kept. */
  get count(): number {
    return this.complete - this.dropped + (this.#partial === "" ? 0 : 1);
  }

  /** A line by its number; empty for one that is not kept. */
  line(number: number): string {
    if (number >= this.complete) return number === this.complete ? this.#partial : "";
    const chunk = this.chunkOf(number);
    if (!chunk) return "";
    const start = chunk.starts[number - chunk.first] as number;
    const next = chunk.starts[number - chunk.first + 1] ?? chunk.text.length;
    return chunk.text.slice(start, chunk.text[next - 1] === "\n" ? next - 1 : next);
  }

  /** Where a complete line is kept. */
  chunkOf(number: number): Chunk | undefined {
    let low = 0;
    let high = this.#chunks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#chunks[middle] as Chunk).first <= number) low = middle;
      else high = middle - 1;
    }
    const chunk = this.#chunks[low];
    return chunk && number >= chunk.first && number < chunk.first + chunk.starts.length ? chunk : undefined;
  }

  append(piece: string) {
    const text = this.#pending + piece;
    const end = text.lastIndexOf("\n") + 1;
    for (let at = 0; at < end; ) {
      const cut = text.indexOf("\n", Math.min(end - 1, at + CHUNK)) + 1;
      this.#addLines(text.slice(at, cut));
      at = cut;
    }
    this.#pending = text.slice(end);
    this.#shortenPending();
    this.#partial = shown(this.#pending);
    this.#drop();
    this.#changed();
  }

  end() {
    if (this.#partial !== "") this.#addLines(`${this.#partial}\n`);
    this.#pending = this.#partial = "";
    this.ended = true;
    this.#changed();
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Changes whenever subscribers are told. */
  version = () => this.#version;

  /** `raw`: whole lines, each with its newline. */
  #addLines(raw: string) {
    const odd = raw.includes(ESC) || raw.includes("\r");
    const text = odd ? `${raw.slice(0, -1).split("\n").map(shown).join("\n")}\n` : raw;
    let chunk = this.#chunks.at(-1);
    if (!chunk || chunk.text.length + text.length > 2 * CHUNK) {
      chunk = { first: this.complete, text: "", starts: [] };
      this.#chunks.push(chunk);
    }
    const offset = chunk.text.length;
    chunk.text += text;
    for (let start = 0; start < text.length; ) {
      const end = text.indexOf("\n", start);
      for (let at = start; at === start || at < end; at += MAX_LINE) {
        chunk.starts.push(offset + at);
        this.complete++;
      }
      start = end + 1;
    }
  }

  /** A progress bar rewrites its line for hours, and a broken program writes no newline at all. */
  #shortenPending() {
    const restart = this.#pending.lastIndexOf("\r", this.#pending.length - 2);
    if (restart > 0) this.#pending = this.#pending.slice(restart);
    while (this.#pending.length > MAX_LINE) {
      this.#addLines(`${shown(this.#pending.slice(0, MAX_LINE))}\n`);
      this.#pending = this.#pending.slice(MAX_LINE);
    }
  }

  #drop() {
    for (let oldest = this.#chunks[0]; oldest; oldest = this.#chunks[0]) {
      if (this.complete - oldest.first - oldest.starts.length < MAX_LINES) break;
      this.#chunks.shift();
      this.dropped = oldest.first + oldest.starts.length;
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
