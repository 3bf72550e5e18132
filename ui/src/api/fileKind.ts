/** Images that the service sends as images. Others, such as SVG, arrive as plain bytes. */
const PICTURE = /\.(png|jpe?g|gif|webp)$/i;

/** Images above this size are downloaded rather than shown. */
const LARGEST_PICTURE = 20 * 1024 * 1024;

export const isPicture = (name: string, bytes: number) => PICTURE.test(name) && bytes <= LARGEST_PICTURE;

/** Decode the beginning of a file as text; null for binary data. A character cut off at the end is left out. */
export function textOf(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return null;
  }
}

/** Return the URL of a job's file. */
export const fileAddress = (jobId: string, path: string) =>
  `/api/v1/jobs/${encodeURIComponent(jobId)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
