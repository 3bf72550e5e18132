import { expect, test, vi } from "vitest";
import { LogBuffer, MAX_LINE, MAX_LINES, shown } from "./LogBuffer";

function read(...pieces: string[]): string[] {
  const buffer = new LogBuffer();
  for (const piece of pieces) buffer.append(piece);
  return all(buffer);
}

const all = (buffer: LogBuffer) =>
  Array.from({ length: buffer.count }, (_, index) => buffer.line(buffer.dropped + index));

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
  expect(all(buffer)).toEqual(["step 49999"]);
});

test("a line that was cut, and the one after it, stand apart", () => {
  const lines = read(`short\n${"x".repeat(MAX_LINE)}${"z".repeat(7)}\nafter\n\n`);
  expect(lines.map((line) => line.length)).toEqual([5, MAX_LINE, 7, 5, 0]);
});

test("the oldest lines go, and are counted", () => {
  const buffer = new LogBuffer();
  const extra = 50_000;
  buffer.append(Array.from({ length: MAX_LINES + extra }, (_, i) => `${i}\n`).join(""));
  expect(buffer.count).toBeGreaterThanOrEqual(MAX_LINES);
  expect(buffer.count).toBeLessThan(MAX_LINES + extra);
  expect(buffer.dropped + buffer.count).toBe(MAX_LINES + extra);
  for (const number of [buffer.dropped, 777_777, MAX_LINES + extra - 1]) {
    expect(buffer.line(number)).toBe(String(number));
  }
  expect(buffer.line(buffer.dropped - 1)).toBe("");
});

test("what is unfinished at the end is a line", () => {
  const buffer = new LogBuffer();
  buffer.append("one\ntwo");
  expect([buffer.count, buffer.complete]).toEqual([2, 1]);
  buffer.end();
  expect([buffer.count, buffer.complete]).toEqual([2, 2]);
  expect(all(buffer)).toEqual(["one", "two"]);
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
