import type { Divider } from "./times";

/** The place of the first number that is not below `value`. */
export function lowerBound(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export interface Shown {
  /** Numbers of the lines to show; null: all that are kept. */
  found: readonly number[] | null;
  /** The number of the first line that is kept, and how many are. */
  first: number;
  kept: number;
  dividers: readonly Divider[];
}

/** The rows of a log: its lines, those that are shown, with dividers between them. */
export class Layout {
  readonly count: number;
  readonly #shown: Shown;
  readonly #dividers: Divider[] = [];
  /** The row of each divider. */
  readonly #rows: number[] = [];

  constructor(shown: Shown) {
    this.#shown = shown;
    const lines = shown.found?.length ?? shown.kept;
    const places: number[] = [];
    for (const divider of shown.dividers) {
      const place = this.#placeOf(divider.line);
      if (place >= lines) break;
      // What has no line of its own on the screen goes: an attempt ends those before it, a day the day before it.
      while (
        places.at(-1) === place &&
        (divider.kind === "attempt" || this.#dividers.at(-1)?.kind === "day")
      ) {
        places.pop();
        this.#dividers.pop();
      }
      places.push(place);
      this.#dividers.push(divider);
    }
    this.#rows = places.map((place, index) => place + index);
    this.count = lines + this.#dividers.length;
  }

  /** What a row shows: the number of a line, or a divider. */
  at(row: number): number | Divider {
    const before = lowerBound(this.#rows, row);
    if (this.#rows[before] === row) return this.#dividers[before] as Divider;
    const place = row - before;
    return this.#shown.found?.[place] ?? this.#shown.first + place;
  }

  /** Where a line is shown, or the next one that is. */
  rowOf(line: number): number {
    const place = this.#placeOf(line);
    let dividers = 0;
    while ((this.#rows[dividers] ?? Number.POSITIVE_INFINITY) - dividers <= place) dividers++;
    return place + dividers;
  }

  #placeOf(line: number): number {
    const { found, first } = this.#shown;
    return found ? lowerBound(found, line) : Math.max(0, line - first);
  }
}
