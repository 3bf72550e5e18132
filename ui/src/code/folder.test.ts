import { expect, test } from "vitest";
import { tarOf } from "./archive";
import { pick, selected } from "./folder";

const LIMITS = { max_bytes: 1000, max_files: 50 };

function files(...given: [path: string, content?: string][]): File[] {
  return given.map(([path, content = "x"]) => {
    const file = new File([content], path.split("/").at(-1) ?? "");
    Object.defineProperty(file, "webkitRelativePath", { value: path.includes("/") ? path : "" });
    return file;
  });
}

const paths = async (...given: [string, string?][]) =>
  (await pick(selected(files(...given)), LIMITS)).files.map((each) => each.path).toSorted();

test("a folder's files are named from the folder on; a file alone by its name", async () => {
  expect(await paths(["nets/train.py"], ["nets/lib/a.py"])).toEqual(["lib/a.py", "train.py"]);
  expect(await paths(["train.py"])).toEqual(["train.py"]);
  const picked = await pick(selected(files(["nets/train.py", "abc"])), LIMITS);
  expect([picked.name, picked.bytes]).toEqual(["nets", 3]);
});

test("what is ignored stays: by habit, by .gitignore of each folder, by the last word", async () => {
  const given: [string, string?][] = [
    ["n/.git/config"],
    ["n/__pycache__/a.pyc"],
    ["n/venv/pyvenv.cfg"],
    ["n/venv/lib.py"],
    ["n/.gitignore", "*.pt\n/data/\n"],
    ["n/model.pt"],
    ["n/data/a.csv"],
    ["n/sub/data/kept.csv"],
    ["n/sub/.gitignore", "!keep.pt\n*.log"],
    ["n/sub/keep.pt"],
    ["n/sub/a.log"],
    ["n/a.log"],
  ];
  expect(await paths(...given)).toEqual([
    ".gitignore",
    "a.log",
    "sub/.gitignore",
    "sub/data/kept.csv",
    "sub/keep.pt",
  ]);
});

test("with an ignore file of our own git's count for nothing", async () => {
  expect(
    await paths(["n/.schedulearnignore", "b.py"], ["n/.gitignore", "a.py"], ["n/a.py"], ["n/b.py"]),
  ).toEqual([".gitignore", ".schedulearnignore", "a.py"]);
});

test("too much is told, with what is largest", async () => {
  await expect(paths(["n/small.py"], ["n/big.bin", "x".repeat(2000)])).rejects.toThrow(
    /n is larger than .*; the largest file is big\.bin/,
  );
  const many = Array.from({ length: 51 }, (_, index): [string] => [`n/${index}.py`]);
  await expect(paths(...many)).rejects.toThrow("n has more than 50 files");
  await expect(paths(["n/.git/config"])).rejects.toThrow("n has no files to send");
});

test("an archive has a header a file, long names apart, and whole blocks", async () => {
  const long = `${"d/".repeat(60)}é.py`;
  const tar = tarOf([
    { path: "a.py", file: new Blob(["hello"]) },
    { path: long, file: new Blob([]) },
  ]);
  expect(tar.size % 512).toBe(0);
  const bytes = new Uint8Array(await tar.arrayBuffer());
  const text = (at: number, length: number) => new TextDecoder().decode(bytes.slice(at, at + length));
  expect(text(0, 5)).toBe("a.py\0");
  expect(text(124, 11)).toBe("00000000005");
  expect(text(512, 5)).toBe("hello");
  expect(text(1024, 13)).toBe("././@LongLink");
  expect(text(1536, 126)).toBe(`${long}\0`);
});
