import { PLAIN, type Style, styleAfter } from "./ansi";
import { isOdd, show } from "./terminal";
import { type Divider, LineTimes, otherDay } from "./times";

/** Maximum lines kept for the screen. The download has all of them. */
export const MAX_LINES = 1_000_000;
/** Maximum length of a line. Longer lines are cut, because browsers stall on lines of megabytes. */
export const MAX_LINE = 4_000;
/** Approximate characters per chunk. A million strings would occupy the garbage collector for longer than a frame.
 * Some thousand do not. */
const CHUNK = 64 * 1024;

/** Complete lines, stored in one text. */
interface Chunk {
  /** Number of its first line, counted from the first line ever. */
  readonly first: number;
  text: string;
  /** Offset of each line. A line ends with a newline, or, if it was cut, where the next one begins. */
  readonly starts: number[];
  /** Rank of the worker that wrote each line; -1: unknown. Absent if no line names one. */
  ranks?: number[];
  /** Styled lines with their escape sequences, and the offset of each line. */
  styled?: { text: string; starts: number[] };
}

/** Attempt and rank of a piece, and the times of its lines. It mirrors `LogText` of the service. */
export interface Origin {
  attempt: number;
  rank: number;
  times: readonly (readonly [line: number, second: number])[];
}

/** Line as shown. */
interface Line {
  text: string;
  /** Text with its colour sequences for a terminal; empty without colours. */
  styled: string;
  /** -1: unknown. */
  rank: number;
  /** Time when the line began, in seconds since the epoch; 0: unknown. */
  second: number;
}

/** Log as numbered lines, fed with pieces that end anywhere. Subscribers are notified at most once per `notifyMs`,
 * however fast the pieces arrive. Line numbers count from the first line ever. */
export class LogBuffer {
  /** Number of the first line still kept. */
  dropped = 0;
  ended = false;
  /** Number of the first line that may still change. */
  complete = 0;
  /** Whether any line names the worker that wrote it. */
  hasRanks = false;
  /** Dividers in the order of their lines. */
  readonly dividers: Divider[] = [];
  readonly #times = new LineTimes();
  readonly #chunks: Chunk[] = [];
  #pending = "";
  #partial = show("");
  /** Style at the beginning of the next line. */
  #style: Style = PLAIN;
  #second = 0;
  #version = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #listeners = new Set<() => void>();
  readonly #notifyMs: number;

  constructor(notifyMs = 80) {
    this.#notifyMs = notifyMs;
  }

  /** Number of lines kept. */
  get count(): number {
    return this.complete - this.dropped + (this.#partial.text === "" ? 0 : 1);
  }

  /** Whether any line has a time. */
  get hasTimes(): boolean {
    return this.#times.known;
  }

  /** Return the text of a line; empty for a line no longer kept. */
  line(number: number): string {
    if (number >= this.complete) return number === this.complete ? this.#partial.text : "";
    const chunk = this.chunkOf(number);
    return chunk ? slice(chunk, number - chunk.first) : "";
  }

  /** Return everything known about a line. */
  whole(number: number): Line {
    const second = this.#times.of(number);
    if (number === this.complete) return { ...this.#partial, second };
    const chunk = this.chunkOf(number);
    if (!chunk) return { text: "", styled: "", rank: -1, second };
    const at = number - chunk.first;
    return {
      text: slice(chunk, at),
      styled: sequencesOf(chunk, at),
      rank: chunk.ranks?.[at] ?? -1,
      second,
    };
  }

  /** Return the chunk of a complete line. */
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

  append(piece: string, origin?: Origin) {
    if (origin) this.#begin(origin);
    let from = 0;
    let lines = 0;
    for (const [line, second] of origin?.times ?? []) {
      let to = from;
      for (; lines < line && to >= 0; lines++) to = piece.indexOf("\n", to) + 1 || -1;
      if (to < 0) break;
      this.#take(piece.slice(from, to));
      this.#note(this.complete + (this.#pending === "" ? 0 : 1), second);
      from = to;
    }
    this.#take(from === 0 ? piece : piece.slice(from));
    this.#shortenPending();
    this.#partial = show(this.#pending, this.#style);
    this.#drop();
    this.#changed();
  }

  end() {
    this.#endLine();
    this.ended = true;
    this.#changed();
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Version of the content. It changes at every notification of subscribers. */
  version = () => this.#version;

  /** Begin another container's output. It starts a new line, even if the last container left one unfinished. */
  #begin({ attempt, rank }: Origin) {
    const last = this.dividers.findLast((divider) => divider.kind === "attempt");
    if (attempt === 0 || (last?.attempt === attempt && last.rank === rank)) return;
    this.#endLine();
    this.#style = PLAIN;
    this.#second = 0;
    this.#times.add(this.complete, 0);
    this.dividers.push({ line: this.complete, kind: "attempt", attempt, rank, second: 0 });
  }

  /** Record the time when the lines from this one on began. */
  #note(line: number, second: number) {
    const last = this.dividers.at(-1);
    if (otherDay(this.#second, second) && last) {
      this.dividers.push({ ...last, line, kind: "day", second });
    } else if (last?.line === line) {
      last.second = second;
    }
    this.#second = second || this.#second;
    this.#times.add(line, second);
  }

  #endLine() {
    if (this.#partial.text !== "") this.#addLines(`${this.#pending}\n`);
    this.#pending = "";
    this.#partial = show("");
  }

  #take(piece: string) {
    const text = this.#pending + piece;
    const end = text.lastIndexOf("\n") + 1;
    for (let at = 0; at < end; ) {
      const cut = text.indexOf("\n", Math.min(end - 1, at + CHUNK)) + 1;
      this.#addLines(text.slice(at, cut));
      at = cut;
    }
    this.#pending = text.slice(end);
  }

  /** Add complete lines. Each line of `raw` ends with a newline. */
  #addLines(raw: string) {
    let chunk = this.#chunks.at(-1);
    if (!chunk || chunk.text.length + raw.length > 2 * CHUNK) {
      chunk = { first: this.complete, text: "", starts: [] };
      this.#chunks.push(chunk);
    }
    if (this.#style !== PLAIN || isOdd(raw)) {
      for (const line of raw.slice(0, -1).split("\n")) {
        const { text, styled, rank, after } = show(line, this.#style);
        this.#style = after;
        this.#describe(chunk, rank, styled);
        this.#addText(chunk, `${text}\n`);
      }
    } else {
      this.#addText(chunk, raw);
    }
  }

  /** Store the rank and style of the line that is added next. */
  #describe(chunk: Chunk, rank: number, styled: string) {
    const { starts } = chunk;
    if (rank >= 0) {
      this.hasRanks = true;
      chunk.ranks ??= [];
      chunk.ranks[starts.length] = rank;
    }
    if (styled !== "") {
      chunk.styled ??= { text: "", starts: [] };
      pad(chunk.styled.starts, starts.length + 1, chunk.styled.text.length);
      chunk.styled.text += styled;
      chunk.styled.starts.push(chunk.styled.text.length);
    }
  }

  #addText(chunk: Chunk, text: string) {
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

  /** Shorten the unfinished line. A progress bar rewrites its line for hours, and a broken program never writes a
   * newline. */
  #shortenPending() {
    const restart = this.#pending.lastIndexOf("\r", this.#pending.length - 2);
    if (restart > 0) {
      this.#style = styleAfter(this.#style, this.#pending.slice(0, restart));
      this.#pending = this.#pending.slice(restart);
    }
    while (this.#pending.length > MAX_LINE) {
      this.#addLines(`${this.#pending.slice(0, MAX_LINE)}\n`);
      this.#pending = this.#pending.slice(MAX_LINE);
    }
  }

  #drop() {
    for (let oldest = this.#chunks[0]; oldest; oldest = this.#chunks[0]) {
      if (this.complete - oldest.first - oldest.starts.length < MAX_LINES) break;
      this.#chunks.shift();
      this.dropped = oldest.first + oldest.starts.length;
      this.#times.forget(this.dropped);
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

function slice({ text, starts }: Chunk, at: number): string {
  const next = starts[at + 1] ?? text.length;
  return text.slice(starts[at], text[next - 1] === "\n" ? next - 1 : next);
}

function sequencesOf({ styled }: Chunk, at: number): string {
  const start = styled?.starts[at];
  return styled && start !== undefined ? styled.text.slice(start, styled.starts[at + 1]) : "";
}

function pad(numbers: number[], length: number, value: number) {
  while (numbers.length < length) numbers.push(value);
}
