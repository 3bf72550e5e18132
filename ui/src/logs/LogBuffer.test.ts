import { expect, test, vi } from "vitest";
import { LogBuffer, MAX_LINE, MAX_LINES, matches, shown } from "./LogBuffer";

function read(...pieces: string[]): string[] {
  const buffer = new LogBuffer();
  for (const piece of pieces) buffer.append(piece);
  return buffer.lines;
}

test("pieces that end within a line make one line", () => {
  expect(read("epoch 1 lo", "ss 0.3", "1\nepoch 2", "\n")).toEqual(["epoch 1 loss 0.31", "epoch 2"]);
});

test("an empty line is a line", () => {
  expect(read("a\n\nb\n")).toEqual(["a", "", "b"]);
});

test("a carriage return starts the line anew, whichever side of the text it stands on", () => {
  expect(read("\r10%", "\r20%", "\r30%\ndone\n")).toEqual(["30%", "done"]);
  expect(read("10%\r", "20%\r", "30%\r")).toEqual(["30%"]);
  expect(read("windows\r\nlines\r\n")).toEqual(["windows", "lines"]);
});

test("CR and LF may come in different pieces", () => {
  expect(read("one\r", "\ntwo\r", "\n")).toEqual(["one", "two"]);
});

test("colours and titles of terminals are left out", () => {
  expect(shown("\u001b[1;31merror\u001b[0m: \u001b]0;title\u0007lost")).toBe("error: lost");
});

test("a line without an end is cut, not kept whole", () => {
  const lines = read("x".repeat(MAX_LINE * 2), "y\n");
  expect(lines.map((line) => line.length)).toEqual([MAX_LINE, MAX_LINE, 1]);
});

test("hours of a progress bar cost one line", () => {
  const buffer = new LogBuffer();
  for (let i = 0; i < 50_000; i++) buffer.append(`\rstep ${i}`);
  expect(buffer.lines).toEqual(["step 49999"]);
});

test("the oldest lines go, and are counted", () => {
  const buffer = new LogBuffer();
  const extra = MAX_LINES / 10 + 1;
  buffer.append(Array.from({ length: MAX_LINES + extra }, (_, i) => `${i}\n`).join(""));
  expect(buffer.lines).toHaveLength(MAX_LINES);
  expect(buffer.dropped).toBe(extra);
  expect(buffer.lines[0]).toBe(String(extra));
});

test("subscribers are told once for a burst", () => {
  vi.useFakeTimers();
  const buffer = new LogBuffer(80);
  const told = vi.fn();
  buffer.subscribe(told);
  for (let i = 0; i < 1000; i++) buffer.append("line\n");
  vi.advanceTimersByTime(80);
  expect(told).toHaveBeenCalledTimes(1);
  vi.useRealTimers();
});

test("search ignores case", () => {
  expect(matches(["Loss 1", "acc", "val LOSS"], "loss")).toEqual([0, 2]);
});
