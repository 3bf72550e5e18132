import { expect, test, vi } from "vitest";
import { LogBuffer, MAX_LINE, MAX_LINES } from "./LogBuffer";
import { show } from "./terminal";

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
  expect(show("\u001b[1;31merror\u001b[0m: \u001b]0;title\u0007lost").text).toBe("error: lost");
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

const origin = (attempt: number, times: [number, number][] = [], rank = 0) => ({ attempt, rank, times });

test("each line has the time at which it began, however the pieces end", () => {
  const buffer = new LogBuffer();
  buffer.append(
    "old\nnew\nne",
    origin(1, [
      [1, 100],
      [2, 101],
    ]),
  );
  buffer.append("wer\nlast\n", origin(1, [[0, 103]]));
  buffer.append("now\n", origin(1, [[0, 103]]));
  expect([0, 1, 2, 3, 4].map((number) => buffer.whole(number).second)).toEqual([0, 100, 101, 103, 103]);
  expect(all(buffer)).toEqual(["old", "new", "newer", "last", "now"]);
  expect([buffer.hasTimes, read("x\n")]).toEqual([true, ["x"]]);
});

test("a line that is cut does not move the times of those after it", () => {
  const buffer = new LogBuffer();
  buffer.append(
    `${"x".repeat(2 * MAX_LINE)}\ny\nz\n`,
    origin(1, [
      [0, 7],
      [1, 8],
      [2, 9],
    ]),
  );
  expect([1, 2, 3].map((number) => [buffer.line(number)[0], buffer.whole(number).second])).toEqual([
    ["x", 7],
    ["y", 8],
    ["z", 9],
  ]);
});

test("each container begins with a line of its own, and in looks of its own", () => {
  const buffer = new LogBuffer();
  buffer.append("\u001b[31mno newline", origin(1, [[0, 50]]));
  buffer.append("two\n", origin(2, [[0, 60]]));
  buffer.append("more\n", origin(2, [[0, 61]]));
  buffer.append("other\n", origin(2, [], 1));
  expect(all(buffer)).toEqual(["no newline", "two", "more", "other"]);
  expect(buffer.whole(1).styled).toBe("");
  expect(buffer.dividers.map(({ line, attempt, rank, second }) => [line, attempt, rank, second])).toEqual([
    [0, 1, 0, 50],
    [1, 2, 0, 60],
    [3, 2, 1, 0],
  ]);
  expect(buffer.whole(3).second, "of this container no time is known").toBe(0);
});

test("a day ends where its last line does", () => {
  const noon = new Date(2026, 10, 19, 12).getTime() / 1000;
  const buffer = new LogBuffer();
  buffer.append(
    "a\nb\nc\n",
    origin(1, [
      [0, noon],
      [1, noon + 60],
      [2, noon + 86_400],
    ]),
  );
  expect(buffer.dividers.map(({ kind, line }) => [kind, line])).toEqual([
    ["attempt", 0],
    ["day", 2],
  ]);
});

test("ranks and colours are those of their lines, among lines that have none", () => {
  const buffer = new LogBuffer();
  buffer.append("plain\n[1]<stdout>:\u001b[32mgreen\u001b[0m\nplain\n\n[0]<stdout>:x\n\u001b[1mbold");
  const lines = [0, 1, 2, 3, 4, 5].map((number) => buffer.whole(number));
  expect(lines.map(({ text, rank }) => [text, rank])).toEqual([
    ["plain", -1],
    ["green", 1],
    ["plain", -1],
    ["", -1],
    ["x", 0],
    ["bold", -1],
  ]);
  expect(lines.map(({ styled }) => styled)).toEqual([
    "",
    "\u001b[32mgreen\u001b[0m",
    "",
    "",
    "",
    "\u001b[1mbold",
  ]);
  buffer.append("er\n\u001b[0mend\n");
  expect(buffer.whole(5)).toMatchObject({ text: "bolder", styled: "\u001b[1mbolder" });
  expect(buffer.whole(1).styled).toBe("\u001b[32mgreen\u001b[0m");
});

test("times of lines that are gone are forgotten, and the others stay", () => {
  const buffer = new LogBuffer();
  const half = MAX_LINES * 0.6;
  for (const second of [100, 200, 300]) buffer.append("line\n".repeat(half), origin(1, [[0, second]]));
  expect(buffer.dropped).toBeGreaterThan(half);
  expect(buffer.whole(buffer.dropped).second).toBe(200);
  expect(buffer.whole(buffer.complete - 1).second).toBe(300);
});
