/** File of an archive. `path` is relative, with slashes. */
export interface ArchiveFile {
  path: string;
  file: Blob;
}

const BLOCK = 512;
const LONGEST_NAME = 100;
const text = new TextEncoder();

/** Build the tar file that the service expects. It copies no files: the browser reads them while sending. */
export function tarOf(files: readonly ArchiveFile[]): Blob {
  const parts: BlobPart[] = [];
  for (const { path, file } of files) {
    const name = text.encode(path);
    if (name.length > LONGEST_NAME) {
      // As in GNU tar, a long name is an entry of its own, before the file that it names.
      parts.push(header(text.encode("././@LongLink"), name.length + 1, "L"), padded(name, name.length + 1));
    }
    parts.push(header(name.slice(0, LONGEST_NAME), file.size, "0"), file, filling(file.size));
  }
  parts.push(new Uint8Array(2 * BLOCK));
  return new Blob(parts, { type: "application/x-tar" });
}

function header(name: Uint8Array, size: number, kind: "0" | "L"): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const put = (value: string, at: number) => block.set(text.encode(value), at);
  block.set(name, 0);
  put("0000644\0", 100);
  put("0000000\0", 108);
  put("0000000\0", 116);
  put(`${size.toString(8).padStart(11, "0")}\0`, 124);
  put("00000000000\0", 136);
  put("        ", 148); // the checksum counts its own field as spaces
  put(kind, 156);
  put("ustar  \0", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

const filling = (size: number) => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);

function padded(content: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size + filling(size).length);
  whole.set(content);
  return whole;
}
