/**
 * Parser for the escape sequences that style terminal text.
 *
 * It covers SGR (ECMA-48 8.3.117), with the 256 and 16 million colours that all terminals support. No library is used:
 * the available ones produce HTML, or choose colours that can't be read on a light background.
 */

/** Built from its code. A literal control character in a pattern is usually a typo. */
export const ESC = String.fromCharCode(27);
const SGR = new RegExp(`${ESC}\\[([0-9;:]*)m`, "g");
/** Any escape sequence: with parameters, for titles and links, or short. */
const SEQUENCE = new RegExp(
  `${ESC}(?:\\[[0-?]*[ -/]*[@-~]|\\][^${ESC}\\u0007]*(?:\\u0007|${ESC}\\\\)|[@-Z\\\\-_])`,
  "g",
);

/** 0xRRGGBB. */
export type Color = number;

export interface Style {
  readonly fg: Color | null;
  readonly bg: Color | null;
  readonly bold: boolean;
  readonly dim: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
  readonly strike: boolean;
  readonly inverse: boolean;
}

export const PLAIN: Style = {
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};

/** Style of the text from `start` to the next span. */
export interface Span {
  start: number;
  style: Style;
}

/** First 16 colours, as in xterm. */
const BASE = [
  0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5, 0x7f7f7f, 0xff0000,
  0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
] as const;
const STEPS = [0, 95, 135, 175, 215, 255] as const;

const step = (value: number) => STEPS[value % 6] as number;
const rgb = (r: number, g: number, b: number): Color => (r << 16) | (g << 8) | b;

/** Return one of the 256 colours; null for any other number. */
export function indexed(index: number): Color | null {
  if (!(index >= 0 && index <= 255)) return null;
  if (index < 16) return BASE[index] as number;
  const cube = index - 16;
  if (cube < 216) return rgb(step(Math.floor(cube / 36)), step(Math.floor(cube / 6)), step(cube));
  const grey = 8 + 10 * (index - 232);
  return rgb(grey, grey, grey);
}

const SWITCHES: Record<number, Partial<Style>> = {
  0: PLAIN,
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  9: { strike: true },
  21: { underline: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  27: { inverse: false },
  29: { strike: false },
  39: { fg: null },
  49: { bg: null },
};

/** Apply parameters such as "1;38;5;208" to a style. Unknown ones change nothing. */
export function restyled(style: Style, parameters: string): Style {
  const given = parameters.split(";");
  let now = style;
  for (let at = 0; at < given.length; at++) {
    const parts = (given[at] as string).split(":").map(Number);
    const code = parts[0] as number;
    if (code === 38 || code === 48 || code === 58) {
      // "38;5;208" continues in the next parameters, "38:5:208" within its own.
      const rest = parts.length > 1 ? parts.slice(1) : given.slice(at + 1, at + 5).map(Number);
      if (parts.length === 1) at += rest[0] === 5 ? 2 : rest[0] === 2 ? 4 : 0;
      // With colons, a colour space may come in between.
      const color =
        rest[0] === 5
          ? indexed(rest[1] ?? -1)
          : rest[0] === 2
            ? mixed(parts.length > 5 ? rest.slice(-3) : rest.slice(1, 4))
            : null;
      // 58, the underline colour, is read only to find where it ends.
      if (color !== null && code !== 58) now = { ...now, [code === 38 ? "fg" : "bg"]: color };
    } else if (code === 4 && parts[1] === 0) {
      now = { ...now, underline: false };
    } else {
      now = { ...now, ...(SWITCHES[code] ?? based(code)) };
    }
  }
  return isPlain(now) ? PLAIN : now;
}

const isPlain = (style: Style) =>
  (Object.keys(PLAIN) as (keyof Style)[]).every((key) => style[key] === PLAIN[key]);

function mixed(values: number[]): Color | null {
  if (values.length !== 3 || values.some((value) => !(value >= 0 && value <= 255))) return null;
  return rgb(...(values as [number, number, number]));
}

function based(code: number): Partial<Style> {
  const base = BASE[(code % 10) + (code >= 90 ? 8 : 0)] as number;
  if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) return { fg: base };
  if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) return { bg: base };
  return {};
}

/** Return the style after a text. */
export function styleAfter(style: Style, raw: string): Style {
  let now = style;
  for (const [, parameters = ""] of raw.matchAll(SGR)) now = restyled(now, parameters);
  return now;
}

/** Return a text without its escape sequences. */
export const withoutSequences = (raw: string) => (raw.includes(ESC) ? raw.replace(SEQUENCE, "") : raw);

/** Return a text with only the escape sequences that `spansOf` reads. */
export const withoutOthers = (raw: string) =>
  raw.replace(SEQUENCE, (sequence) => (/^.\[[0-9;:]*m$/s.test(sequence) ? sequence : ""));

/** Return the escape sequence that sets a style; empty for plain text. */
export function sequenceOf(style: Style): string {
  if (style === PLAIN) return "";
  const color = (code: number, value: Color) =>
    `${code};2;${value >> 16};${(value >> 8) & 255};${value & 255}`;
  const codes = [
    ...(Object.entries(SWITCHES) as [string, Partial<Style>][])
      .filter(
        ([code, to]) =>
          Number(code) > 0 && Number(code) < 10 && Object.keys(to).every((key) => style[key as keyof Style]),
      )
      .map(([code]) => code),
    ...(style.fg === null ? [] : [color(38, style.fg)]),
    ...(style.bg === null ? [] : [color(48, style.bg)]),
  ];
  return codes.length > 0 ? `${ESC}[${codes.join(";")}m` : "";
}

/** Maximum style changes in a line. More can't be told apart. */
const MOST_SPANS = 400;

/** Return the styles of a text that has no other sequences. Positions are in the text without sequences. */
export function spansOf(styled: string): Span[] {
  const spans: Span[] = [];
  let style = PLAIN;
  let gone = 0;
  for (const match of styled.matchAll(SGR)) {
    const start = match.index - gone;
    gone += match[0].length;
    style = restyled(style, match[1] ?? "");
    if (spans.at(-1)?.start === start) spans.pop();
    if (spans.length < MOST_SPANS) spans.push({ start, style });
  }
  return spans;
}
