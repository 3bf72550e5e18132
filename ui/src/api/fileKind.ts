/** Pictures that the service sends as such; others, SVG above all, come as plain bytes. */
const PICTURE = /\.(png|jpe?g|gif|webp)$/i;

/** A picture this large is downloaded rather than shown. */
const LARGEST_PICTURE = 20 * 1024 * 1024;

export const isPicture = (name: string, bytes: number) => PICTURE.test(name) && bytes <= LARGEST_PICTURE;

/** The beginning of a file as text; null for bytes that are none. A character that is cut at the end is left out. */
export function textOf(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return null;
  }
}

/** The address of a job's file. */
export const fileAddress = (jobId: string, path: string) =>
  `/api/v1/jobs/${encodeURIComponent(jobId)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
