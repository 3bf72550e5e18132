import { expect, test } from "vitest";
import { ROW_PX, rowsInView, SPACE_PX, spaceOf } from "./rows";

test("a short log is drawn where it lies", () => {
  expect(rowsInView(100, 400, 200, 2)).toEqual({ first: 18, end: 32, offset: 18 * ROW_PX });
  expect(rowsInView(3, 0, 200, 2)).toEqual({ first: 0, end: 3, offset: 0 });
});

test("of a log longer than any space the first and the last lines are reached", () => {
  const count = 1_000_000;
  expect(spaceOf(count)).toBe(SPACE_PX);
  expect(rowsInView(count, 0, 500, 0)).toEqual({ first: 0, end: 25, offset: 0 });
  const end = rowsInView(count, SPACE_PX - 500, 500, 0);
  expect(end.end).toBe(count);
  expect(end.offset + (end.end - end.first) * ROW_PX).toBe(SPACE_PX);
});
