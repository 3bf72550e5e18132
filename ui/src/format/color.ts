/** Colours that tell jobs apart, for light and for dark; neighbours differ in lightness as well as in hue. */
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

/** Which colour each job has that runs now. */
let taken = new Map<string, number>();

/** Gives the jobs that run at the same time colours of their own; of more jobs than colours as few as can be have the
 * same. One that has a colour
 * keeps it. Every screen calls it before it draws: a job has the same colour on all of them. */
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

/** The colour of a job. One that has ended has always the same. */
export function jobColor(id: string, dark: boolean): string {
  return (dark ? DARK : LIGHT)[taken.get(id) ?? preferred(id)] as string;
}

/** For series of a chart: the first, the second, ... */
export function seriesColor(index: number, dark: boolean): string {
  const palette = dark ? DARK : LIGHT;
  return palette[index % palette.length] as string;
}

/** The same for both colour schemes, in a style: it follows the scheme by itself. */
export function seriesColors(index: number): string {
  return `light-dark(${seriesColor(index, false)}, ${seriesColor(index, true)})`;
}

/** For what is no one's: idle time, all others. */
export const MUTED = { light: "#8a938f", dark: "#737e7a" };
