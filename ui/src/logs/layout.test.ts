import { expect, test } from "vitest";
import { Layout, lowerBound } from "./layout";
import type { Divider } from "./times";

const attempt = (line: number, number = 1): Divider => ({
  line,
  kind: "attempt",
  attempt: number,
  rank: 0,
  second: 0,
});
const day = (line: number): Divider => ({ ...attempt(line), kind: "day" });

function rows(found: number[] | null, dividers: Divider[], first = 0, kept = 4): (string | number)[] {
  const layout = new Layout({ found, first, kept, dividers });
  return Array.from({ length: layout.count }, (_, row) => {
    const shown = layout.at(row);
    return typeof shown === "number" ? shown : `${shown.kind} ${shown.attempt}`;
  });
}

test("dividers stand before their lines, and lines keep their numbers", () => {
  expect(rows(null, [attempt(0), day(1), attempt(2, 2)])).toEqual([
    "attempt 1",
    0,
    "day 1",
    1,
    "attempt 2",
    2,
    3,
  ]);
  expect(rows(null, [])).toEqual([0, 1, 2, 3]);
});

test("of lines that are no longer kept the attempt is still told", () => {
  expect(rows(null, [attempt(0), attempt(2, 2), day(4)], 6)).toEqual(["attempt 2", "day 1", 6, 7, 8, 9]);
  expect(rows(null, [attempt(0), day(2), attempt(4, 2)], 6)).toEqual(["attempt 2", 6, 7, 8, 9]);
});

test("between matches stand those dividers only that have matches after them", () => {
  const dividers = [attempt(0), day(2), attempt(4, 2), attempt(6, 3), attempt(9, 4)];
  expect(rows([1, 7], dividers, 0, 12)).toEqual(["attempt 1", 1, "attempt 3", 7]);
  expect(rows([], dividers, 0, 12)).toEqual([]);
});

test("a line's row is found again", () => {
  const layout = new Layout({
    found: null,
    first: 10,
    kept: 5,
    dividers: [attempt(0), attempt(12, 2), day(12)],
  });
  for (let line = 10; line < 15; line++) expect(layout.at(layout.rowOf(line))).toBe(line);
  const filtered = new Layout({
    found: [11, 13],
    first: 10,
    kept: 5,
    dividers: [attempt(0), attempt(12, 2)],
  });
  expect([filtered.rowOf(11), filtered.rowOf(13)]).toEqual([1, 3]);
  expect(filtered.at(filtered.rowOf(12))).toBe(13);
});

test("the place of a number among sorted ones", () => {
  expect([0, 1, 2, 3, 9].map((value) => lowerBound([1, 2, 2, 5], value))).toEqual([0, 0, 1, 3, 4]);
});
