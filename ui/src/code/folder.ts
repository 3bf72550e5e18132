import ignore, { type Ignore } from "ignore";
import { count } from "../format/number";
import { size } from "../format/size";
import type { ArchiveFile } from "./archive";

/** File or folder that the user chose, from any source. */
export type Node =
  | { name: string; file: () => Promise<File> }
  | { name: string; children: () => Promise<Node[]>; file?: undefined };

export interface Picked {
  /** Name of the folder or file. */
  name: string;
  files: ArchiveFile[];
  bytes: number;
  /** Number of files and folders left out, by ignore files or by default. */
  ignored: number;
}

interface Limits {
  max_bytes: number;
  max_files: number;
}

/** Left out always or by default, as in `schedulearn run`: see docs/code.md. */
const ALWAYS = [".git", ".hg", ".svn"];
const USUALLY = [
  "__pycache__/",
  "*.py[co]",
  ".ipynb_checkpoints/",
  ".mypy_cache/",
  ".pytest_cache/",
  ".ruff_cache/",
  ".DS_Store",
  "node_modules/",
];
const OWN_IGNORE = ".schedulearnignore";
const GIT_IGNORE = ".gitignore";
const VIRTUAL = "pyvenv.cfg";

interface Rules {
  /** From the chosen folder down. */
  found: { below: string; rules: Ignore }[];
  nested: boolean;
}

/** Return the chosen files without ignored ones. Throw an Error that names the exceeded limit. */
export async function pick(chosen: readonly Node[], limits: Limits): Promise<Picked> {
  const [first] = chosen;
  if (!first) throw new Error("Nothing was chosen.");
  const folder = chosen.length === 1 && !first.file;
  const root = folder ? await first.children() : [...chosen];
  const own = root.some((node) => node.file && node.name === OWN_IGNORE);
  const rules: Rules = { found: [{ below: "", rules: ignore().add(USUALLY) }], nested: !own };
  const picked: Picked = {
    name: chosen.length === 1 ? first.name : `${count(chosen.length)} files`,
    files: [],
    bytes: 0,
    ignored: 0,
  };
  await walk(root, "", own ? await withRules(rules, root, OWN_IGNORE, "") : rules, picked, limits);
  if (picked.files.length === 0) throw new Error(`${picked.name} has no files to send.`);
  return picked;
}

async function walk(
  nodes: Node[],
  below: string,
  outer: Rules,
  picked: Picked,
  limits: Limits,
): Promise<void> {
  const rules = outer.nested ? await withRules(outer, nodes, GIT_IGNORE, below) : outer;
  for (const node of nodes) {
    const path = below + node.name;
    if (ALWAYS.includes(node.name) || isIgnored(rules, node.file ? path : `${path}/`)) {
      picked.ignored++;
      continue;
    }
    if (node.file) {
      add(picked, path, await node.file(), limits);
      continue;
    }
    const children = await node.children();
    // A virtual environment works only on the machine that created it.
    if (children.some((each) => each.name === VIRTUAL)) picked.ignored++;
    else await walk(children, `${path}/`, rules, picked, limits);
  }
}

function add(picked: Picked, path: string, file: File, limits: Limits) {
  picked.files.push({ path, file });
  picked.bytes += file.size;
  const { name, files, bytes } = picked;
  if (files.length > limits.max_files) {
    throw new Error(`${name} has more than ${count(limits.max_files)} files. ${LEAVE_OUT}`);
  }
  if (bytes > limits.max_bytes) {
    const largest = files.reduce((most, each) => (each.file.size > most.file.size ? each : most));
    throw new Error(
      `${name} is larger than ${size(limits.max_bytes)}; the largest file is ${largest.path}, ${size(largest.file.size)}. ${LEAVE_OUT}`,
    );
  }
}

const LEAVE_OUT = `List files that the job does not need in ${OWN_IGNORE}; use a data set for data.`;

async function withRules(rules: Rules, nodes: Node[], name: string, below: string): Promise<Rules> {
  const found = nodes.find((node) => node.name === name && node.file);
  if (!found?.file) return rules;
  const own = ignore().add(await (await found.file()).text());
  return { ...rules, found: [...rules.found, { below, rules: own }] };
}

/** Apply the deepest ignore file with a matching rule. */
function isIgnored({ found }: Rules, path: string): boolean {
  for (const { below, rules } of found.toReversed()) {
    const said = rules.test(path.slice(below.length));
    if (said.ignored || said.unignored) return said.ignored;
  }
  return false;
}

/** Return the dropped files and folders. Call it at once: the browser discards them after the event. */
export function dropped(data: DataTransfer): Node[] {
  return [...data.items].flatMap((item) => {
    const entry = item.webkitGetAsEntry?.();
    if (entry) return [nodeOf(entry)];
    const file = item.getAsFile();
    return file ? [{ name: file.name, file: async () => file }] : [];
  });
}

function nodeOf(entry: FileSystemEntry): Node {
  if (entry.isFile) {
    const file = () => new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    return { name: entry.name, file };
  }
  return { name: entry.name, children: () => childrenOf(entry as FileSystemDirectoryEntry) };
}

/** Read all entries. A reader returns at most 100 at a time, and none at the end. */
async function childrenOf(folder: FileSystemDirectoryEntry): Promise<Node[]> {
  const reader = folder.createReader();
  const nodes: Node[] = [];
  for (;;) {
    const found = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (found.length === 0) return nodes.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    nodes.push(...found.map(nodeOf));
  }
}

/** Return a file input's selection as a tree. The browser gives a flat list of files with paths. */
export function selected(files: Iterable<File>): Node[] {
  const root: Branch = { name: "", branches: new Map(), leaves: [] };
  for (const file of files) {
    const parts = (file.webkitRelativePath || file.name).split("/");
    let branch = root;
    for (const part of parts.slice(0, -1)) {
      const next = branch.branches.get(part) ?? { name: part, branches: new Map(), leaves: [] };
      branch.branches.set(part, next);
      branch = next;
    }
    branch.leaves.push({ name: parts.at(-1) ?? "", file: async () => file });
  }
  return nodesOf(root);
}

interface Branch {
  name: string;
  branches: Map<string, Branch>;
  leaves: Node[];
}

const nodesOf = (branch: Branch): Node[] => [
  ...[...branch.branches.values()].map((each) => ({ name: each.name, children: async () => nodesOf(each) })),
  ...branch.leaves,
];
