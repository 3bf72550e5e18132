import type { Divider } from "./times";

/** Return the index of the first number that is not below `value`. */
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

interface Shown {
  /** Numbers of the lines to show; null: all that are kept. */
  found: readonly number[] | null;
  /** Number of the first line kept, and the number of lines kept. */
  first: number;
  kept: number;
  dividers: readonly Divider[];
}

/** Rows of a log: its shown lines, with dividers between them. */
export class Layout {
  readonly count: number;
  readonly #shown: Shown;
  readonly #dividers: Divider[] = [];
  /** Row of each divider. */
  readonly #rows: number[] = [];

  constructor(shown: Shown) {
    this.#shown = shown;
    const lines = shown.found?.length ?? shown.kept;
    const places: number[] = [];
    for (const divider of shown.dividers) {
      const place = this.#placeOf(divider.line);
      if (place >= lines) break;
      // Drop dividers without a shown line of their own. An attempt replaces those before it, a day only the day before
      // it.
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

  /** Return what a row shows: the number of a line, or a divider. */
  at(row: number): number | Divider {
    const before = lowerBound(this.#rows, row);
    if (this.#rows[before] === row) return this.#dividers[before] as Divider;
    const place = row - before;
    return this.#shown.found?.[place] ?? this.#shown.first + place;
  }

  /** Return the row of a line, or of the next line shown. */
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
