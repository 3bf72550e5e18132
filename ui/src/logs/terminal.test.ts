import { expect, test } from "vitest";
import { ESC, PLAIN } from "./ansi";
import { isOdd, show } from "./terminal";

const red = `${ESC}[31m`;

test("ranks are read as launchers write them, and leave the text", () => {
  for (const [raw, rank, text] of [
    ["[3]<stdout>:loss 1", 3, "loss 1"],
    ["[0]<stderr>:Traceback (most recent call last):", 0, "Traceback (most recent call last):"],
    ["[1,12]<stdout>:x", 12, "x"],
    ["[rank7]: ValueError: y", 7, "ValueError: y"],
    ["[default2]:z", 2, "z"],
    ["[3]<stdout>:", 3, ""],
    ["[0] epoch", -1, "[0] epoch"],
    ["see [3]<stdout>:x", -1, "see [3]<stdout>:x"],
    ["[1234567]<stdout>:x", -1, "[1234567]<stdout>:x"],
  ] as const) {
    expect(show(raw), raw).toMatchObject({ rank, text });
    if (text !== raw) expect(isOdd(raw), raw).toBe(true);
  }
});

test("a progress bar of a worker is still that worker's", () => {
  expect(show("[2]<stderr>:10%\r20%")).toMatchObject({ rank: 2, text: "20%" });
  expect(show("[2]<stderr>:10%\r[2]<stderr>:20%\r")).toMatchObject({ rank: 2, text: "20%" });
});

test("colours stay, other sequences go", () => {
  const { text, styled, after } = show(`${red}err${ESC}[Kor${ESC}[0m ${ESC}]8;;http://x${ESC}\\link`);
  expect([text, styled]).toEqual(["error link", `${red}error${ESC}[0m link`]);
  expect(after).toEqual(PLAIN);
  expect(show(`${ESC}[2Kplain`)).toMatchObject({ text: "plain", styled: "" });
});

test("a colour goes on over the ends of lines, and what a carriage return took away counts", () => {
  const first = show(`[0]<stderr>:${red}one`);
  const second = show("two", first.after);
  expect(second.styled).toContain("two");
  expect(second.after.fg).toBe(0xcd0000);
  const third = show(`three${ESC}[0m`, second.after);
  expect(third.after).toEqual(PLAIN);
  expect(show("four", third.after).styled).toBe("");
  expect(show(`${red}10%\r20%`).after.fg).toBe(0xcd0000);
});
