import { expect, test } from "vitest";
import { ESC, indexed, PLAIN, restyled, type Style, sequenceOf, spansOf, styleAfter } from "./ansi";

const sgr = (parameters: string) => `${ESC}[${parameters}m`;
const style = (changes: Partial<Style>): Style => ({ ...PLAIN, ...changes });

test("colours of 8, 16, 256 and 16 million, in both ways of writing them", () => {
  const fg = (parameters: string) => restyled(PLAIN, parameters).fg;
  expect(fg("31")).toBe(0xcd0000);
  expect(fg("91")).toBe(0xff0000);
  expect([fg("38;5;1"), fg("38;5;16"), fg("38;5;208"), fg("38;5;255")]).toEqual([
    0xcd0000, 0, 0xff8700, 0xeeeeee,
  ]);
  expect([fg("38;2;1;2;3"), fg("38:2:1:2:3"), fg("38:2::1:2:3"), fg("38:5:208")]).toEqual([
    0x010203, 0x010203, 0x010203, 0xff8700,
  ]);
  expect(restyled(PLAIN, "1;48;5;21;4")).toEqual(style({ bold: true, bg: 0x0000ff, underline: true }));
});

test("what turns a look on has what turns it off, and nothing else does", () => {
  const all = restyled(PLAIN, "1;2;3;4;7;9;31;42");
  expect(all).toEqual({
    fg: 0xcd0000,
    bg: 0x00cd00,
    bold: true,
    dim: true,
    italic: true,
    underline: true,
    strike: true,
    inverse: true,
  });
  expect(restyled(all, "22;23;24;27;29;39;49")).toBe(PLAIN);
  expect(restyled(all, "4:0").underline).toBe(false);
  for (const reset of ["", "0", "00", "0;0"]) expect(restyled(all, reset)).toBe(PLAIN);
});

test("what is wrong or unknown changes nothing, and hides nothing after it", () => {
  for (const parameters of [
    "38",
    "38;5",
    "38;5;256",
    "38;2;1;2",
    "38;2;1;2;999",
    "48;7",
    "5",
    "77",
    "58;5;1",
  ]) {
    expect(restyled(PLAIN, parameters), parameters).toMatchObject({ fg: null, bg: null, bold: false });
  }
  expect(restyled(PLAIN, "77;31").fg).toBe(0xcd0000);
  expect([indexed(-1), indexed(256), indexed(Number.NaN)]).toEqual([null, null, null]);
});

test("a line's looks are told by places in its text", () => {
  const line = `${sgr("1;31")}error${sgr("0")}: ${sgr("36")}${sgr("4")}path${sgr("")}`;
  expect(spansOf(line)).toEqual([
    { start: 0, style: style({ bold: true, fg: 0xcd0000 }) },
    { start: 5, style: PLAIN },
    { start: 7, style: style({ fg: 0x00cdcd, underline: true }) },
    { start: 11, style: PLAIN },
  ]);
  expect(spansOf(sgr("31;").repeat(1_000)).length).toBe(1);
  expect(spansOf(`${sgr("31")}x`.repeat(1_000)).length).toBe(400);
});

test("a style that goes on over lines can be written down and read again", () => {
  for (const parameters of ["31", "1;2;3;4;7;9", "38;5;208;48;2;1;2;3", "0"]) {
    const before = restyled(PLAIN, parameters);
    expect(styleAfter(PLAIN, sequenceOf(before))).toEqual(before);
  }
  expect(sequenceOf(PLAIN)).toBe("");
});
