import type { CSSProperties } from "react";
import type { Color, Style } from "./ansi";

/** Background of the log, light and dark: `--well` of the theme. */
export const GROUNDS = [0xfbfaf7, 0x0d1211] as const;
/** Minimum contrast of text by WCAG, level AA. */
export const ENOUGH = 4.5;

const channels = (color: Color) => [color >> 16, (color >> 8) & 255, color & 255] as const;

function luminance(color: Color): number {
  const [r, g, b] = channels(color).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Return the contrast of two colours by WCAG's definition, from 1 to 21. */
export function contrast(one: Color, other: Color): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function mix(from: Color, to: Color, share: number): Color {
  const [a, b] = [channels(from), channels(to)];
  const [red, green, blue] = a.map((value, at) => Math.round(value + ((b[at] as number) - value) * share));
  return ((red as number) << 16) | ((green as number) << 8) | (blue as number);
}

/** Return a readable colour on a background. It is the colour itself, or the nearest readable one towards black or
 * white. */
export function readable(color: Color, ground: Color): Color {
  const end = contrast(0x000000, ground) > contrast(0xffffff, ground) ? 0x000000 : 0xffffff;
  for (let share = 0; share < 1; share += 0.05) {
    const mixed = mix(color, end, share);
    if (contrast(mixed, ground) >= ENOUGH) return mixed;
  }
  return end;
}

const css = (color: Color) => `#${color.toString(16).padStart(6, "0")}`;
const INKS = [0x1a1f1d, 0xe6ebe9] as const;
const FAINT = 0.35;
const known = new Map<string, CSSProperties>();
const MOST_KNOWN = 2_000;

/** Return the colours of a style on one of the backgrounds. null: the text's own colour. */
export function colorsOn(style: Style, scheme: 0 | 1): { fg: Color | null; bg: Color | null } {
  const ground = GROUNDS[scheme];
  const [fg, bg] = style.inverse ? [style.bg ?? ground, style.fg ?? INKS[scheme]] : [style.fg, style.bg];
  if (fg === null && bg === null && !style.dim) return { fg: null, bg: null };
  const under = bg ?? ground;
  const ink = fg ?? (bg === null ? INKS[scheme] : under);
  return { fg: readable(style.dim ? mix(ink, under, FAINT) : ink, under), bg };
}

/** Return the CSS of a style, for both colour schemes. */
export function looksOf(style: Style): CSSProperties {
  const name = Object.values(style).join();
  let looks = known.get(name);
  if (looks) return looks;
  const [light, dark] = [colorsOn(style, 0), colorsOn(style, 1)];
  const both = (key: "fg" | "bg") => {
    const [one, other] = [light[key], dark[key]];
    return one === null || other === null ? undefined : `light-dark(${css(one)}, ${css(other)})`;
  };
  const lines = [style.underline && "underline", style.strike && "line-through"].filter(Boolean);
  looks = {
    color: both("fg"),
    backgroundColor: both("bg"),
    fontWeight: style.bold ? 700 : undefined,
    fontStyle: style.italic ? "italic" : undefined,
    textDecoration: lines.length > 0 ? lines.join(" ") : undefined,
  };
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(name, looks);
  return looks;
}
