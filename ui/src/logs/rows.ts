export const ROW_PX = 20;
/** Maximum height of the rows. Firefox lays out nothing beyond about 17.8 million pixels. A longer log moves under a
 * shorter scroll bar. */
export const SPACE_PX = 15_000_000;

interface Visible {
  /** Rows to draw: [first, end). */
  first: number;
  end: number;
  /** Position of the first row in the space, in pixels. */
  offset: number;
}

export function spaceOf(count: number): number {
  return Math.min(SPACE_PX, count * ROW_PX);
}

/** Return the rows in view, plus `spare` rows on either side. There are `count` rows, each ROW_PX high. */
export function rowsInView(count: number, scrollTop: number, height: number, spare: number): Visible {
  const total = count * ROW_PX;
  const space = spaceOf(count);
  const furthest = Math.max(1, space - height);
  const share = Math.min(1, Math.max(0, scrollTop / furthest));
  const top = total > space ? share * Math.max(0, total - height) : scrollTop;
  const first = Math.max(0, Math.min(count, Math.floor(top / ROW_PX) - spare));
  const end = Math.min(count, Math.ceil((top + height) / ROW_PX) + spare);
  return { first, end, offset: scrollTop + first * ROW_PX - top };
}
