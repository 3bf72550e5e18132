/** Colours that tell jobs apart, for light and for dark; neighbours differ in lightness as well as in hue. */
const LIGHT =
  "#0d7261 #c2571a #3f5fb8 #8a3b8f #5d7a12 #b3396b #1d7fa6 #8b5e1a #5b4bb0 #2f8a4b #a8443a #4a6670".split(
    " ",
  );
const DARK =
  "#46ad99 #e98f55 #8fa6ee #cf8ad3 #a9c254 #ee86b0 #6bc0e3 #d0a25a #aba0f2 #74c88d #ea8f86 #9fb8c1".split(
    " ",
  );

/** Always the same colour for the same id. */
export function jobColor(id: string, dark: boolean): string {
  let hash = 0;
  for (let at = 0; at < id.length; at++) hash = (hash * 31 + id.charCodeAt(at)) | 0;
  const palette = dark ? DARK : LIGHT;
  return palette[Math.abs(hash) % palette.length] as string;
}

/** For series of a chart: the first, the second, ... */
export function seriesColor(index: number, dark: boolean): string {
  const palette = dark ? DARK : LIGHT;
  return palette[index % palette.length] as string;
}
