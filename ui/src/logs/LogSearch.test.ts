import { expect, test } from "vitest";
import { LogBuffer, MAX_LINES } from "./LogBuffer";
import { BAD, LogSearch, patternOf } from "./LogSearch";

function log(text: string): LogBuffer {
  const buffer = new LogBuffer();
  buffer.append(text);
  return buffer;
}

const text = (wanted: string) => patternOf(wanted, false) as RegExp;

test("case does not matter, and signs are only signs", () => {
  const search = new LogSearch(log("Loss 1\nacc\nval LOSS [0.5]\n"), text("loss"));
  expect(search.advance(10)).toBe(true);
  expect(search.found).toEqual([0, 2]);
  const signs = new LogSearch(log("x\n[0.5]\n[055]\n"), text("[0.5]"));
  signs.advance(10);
  expect(signs.found).toEqual([1]);
});

test("it stops when its time is over, and goes on where it was", () => {
  const buffer = log("hit and run\n".repeat(100_000));
  const search = new LogSearch(buffer, text("hit"));
  let clock = 0;
  let turns = 1;
  while (!search.advance(8, () => clock++ * 10)) turns++;
  expect(turns).toBeGreaterThan(5);
  expect(search.found).toHaveLength(100_000);
  buffer.append("hit\nmiss\n");
  search.advance(10);
  expect(search.found.at(-1)).toBe(100_000);
  expect(search.found).toHaveLength(100_001);
});

test("a line that is still being written is looked at when it is done", () => {
  const buffer = log("one\nhi");
  const search = new LogSearch(buffer, text("hit"));
  search.advance(10);
  buffer.append("t me");
  search.advance(10);
  expect(search.found).toEqual([]);
  buffer.end();
  search.advance(10);
  expect(search.found).toEqual([1]);
});

test("what is no longer kept is no longer found", () => {
  const buffer = log("hit\n".repeat(3));
  const search = new LogSearch(buffer, text("hit"));
  search.advance(10);
  buffer.append("miss\n".repeat(MAX_LINES * 1.1));
  while (!search.advance(1000)) {}
  expect(buffer.dropped).toBeGreaterThan(3);
  expect(search.found).toEqual([]);
});

test("a regular expression is asked of each line; one that is none finds nothing", () => {
  const buffer = log("epoch 1 loss 0.5\nepoch 12 loss 0.4\nval\n");
  const search = new LogSearch(buffer, patternOf("^epoch \\d\\d", true) as RegExp);
  search.advance(10);
  expect(search.found).toEqual([1]);
  expect([patternOf("(", true), patternOf("", false), patternOf("x".repeat(201), false)]).toEqual([
    null,
    null,
    null,
  ]);
  expect(patternOf("(", false)).not.toBe(null);
});

test("errors are found by how loggers and tracebacks write them", () => {
  const buffer = log(
    "ok\n2026 ERROR no disk\nTraceback (most recent call last):\nValueError: x\nno error here\n",
  );
  const search = new LogSearch(buffer, BAD);
  search.advance(10);
  expect(search.found).toEqual([1, 2, 3]);
});
