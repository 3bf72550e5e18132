/** Colours of jobs in light and dark mode. Neighbours differ in lightness as well as in hue. */
export const LIGHT =
  "#0d7261 #b5520f #3f5fb8 #8a3b8f #5d7a12 #b3396b #197396 #8b5e1a #5b4bb0 #2a7a42 #a8443a #4a6670".split(
    " ",
  );
export const DARK =
  "#46ad99 #e98f55 #8fa6ee #cf8ad3 #a9c254 #ee86b0 #6bc0e3 #d0a25a #aba0f2 #74c88d #ea8f86 #9fb8c1".split(
    " ",
  );

function preferred(id: string): number {
  let hash = 0;
  for (let at = 0; at < id.length; at++) hash = (hash * 31 + id.charCodeAt(at)) | 0;
  return Math.abs(hash) % LIGHT.length;
}

/** Colour index of each running job. */
let taken = new Map<string, number>();

/**
 * Give jobs that run at the same time different colours.
 *
 * With more jobs than colours, as few as possible share one. A job with a colour keeps it. Every screen calls this
 * before it draws, so a job has the same colour on all of them.
 */
export function shareColors(running: Iterable<string>) {
  const ids = [...new Set(running)].sort();
  const next = new Map<string, number>();
  for (const id of ids) {
    const index = taken.get(id);
    if (index !== undefined) next.set(id, index);
  }
  const uses = new Array<number>(LIGHT.length).fill(0);
  for (const index of next.values()) uses[index] = (uses[index] ?? 0) + 1;
  for (const id of ids) {
    if (next.has(id)) continue;
    const least = Math.min(...uses);
    let index = preferred(id);
    while (uses[index] !== least) index = (index + 1) % LIGHT.length;
    next.set(id, index);
    uses[index] = least + 1;
  }
  taken = next;
}

/** Return the colour of a job. A finished job always has the same one. */
export function jobColor(id: string, dark: boolean): string {
  return (dark ? DARK : LIGHT)[taken.get(id) ?? preferred(id)] as string;
}

/** Return the colour of a chart's series by its index. */
export function seriesColor(index: number, dark: boolean): string {
  const palette = dark ? DARK : LIGHT;
  return palette[index % palette.length] as string;
}

/** Colour of a series for CSS. It follows the colour scheme by itself. */
export function seriesColors(index: number): string {
  return `light-dark(${seriesColor(index, false)}, ${seriesColor(index, true)})`;
}

/** Grey, for what belongs to nobody: idle time, all others. */
export const MUTED = { light: "#8a938f", dark: "#737e7a" };
