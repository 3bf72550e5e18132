import { expect, test } from "vitest";
import { indexed, PLAIN, type Style } from "./ansi";
import { colorsOn, contrast, ENOUGH, GROUNDS, looksOf, readable } from "./looks";

const all = Array.from({ length: 256 }, (_, index) => indexed(index) as number);
const schemes = [0, 1] as const;

test("contrast is as WCAG defines it", () => {
  expect(contrast(0xffffff, 0x000000)).toBeCloseTo(21);
  expect(contrast(0x777777, 0xffffff)).toBeCloseTo(4.48, 2);
  expect(contrast(0x123456, 0x123456)).toBe(1);
});

test("every colour can be read on every ground, dim or inverse too", () => {
  for (const scheme of schemes) {
    for (const fg of [null, ...all]) {
      for (const bg of [null, ...all.slice(0, 16), 0x777777]) {
        for (const changes of [{}, { dim: true }, { inverse: true }]) {
          const style: Style = { ...PLAIN, fg, bg, ...changes };
          const colors = colorsOn(style, scheme);
          if (colors.fg === null) continue;
          expect(contrast(colors.fg, colors.bg ?? GROUNDS[scheme])).toBeGreaterThanOrEqual(ENOUGH);
        }
      }
    }
  }
});

test("a colour that can be read stays what it is", () => {
  expect(readable(0x0000ee, GROUNDS[0])).toBe(0x0000ee);
  expect(readable(0xffff00, GROUNDS[1])).toBe(0xffff00);
  expect(readable(0xffff00, GROUNDS[0])).not.toBe(0xffff00);
});

test("text without colours has none of its own", () => {
  expect(colorsOn({ ...PLAIN, bold: true }, 0)).toEqual({ fg: null, bg: null });
  expect(looksOf({ ...PLAIN, bold: true })).toMatchObject({ color: undefined, fontWeight: 700 });
  expect(looksOf({ ...PLAIN, fg: 0xffffff }).color).toMatch(/^light-dark\(#[0-9a-f]{6}, #ffffff\)$/);
});
