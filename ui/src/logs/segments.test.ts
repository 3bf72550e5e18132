import { expect, test } from "vitest";
import { ESC, spansOf } from "./ansi";
import { segmentsOf } from "./segments";

const parts = (text: string, styled: string, ranges: [number, number][]) =>
  segmentsOf(text, spansOf(styled), ranges).map(({ from, to, style, marked }) => [
    text.slice(from, to),
    style?.bold ?? false,
    marked,
  ]);

test("a match may begin in one look and end in another", () => {
  expect(parts("ab cd", `a${ESC}[1mb c${ESC}[md`, [[0, 2]])).toEqual([
    ["a", false, true],
    ["b", true, true],
    [" c", true, false],
    ["d", false, false],
  ]);
});

test("matches one after the other, and a look that changes at the end", () => {
  const two: [number, number][] = [
    [0, 1],
    [1, 2],
  ];
  expect(parts("xyz", `xyz${ESC}[1m`, two).map(([text, , marked]) => [text, marked])).toEqual([
    ["x", true],
    ["y", true],
    ["z", false],
  ]);
  expect(parts("plain", "", [])).toEqual([["plain", false, false]]);
});
