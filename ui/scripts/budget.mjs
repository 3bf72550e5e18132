// Fails the build when the JavaScript that the first screen loads outgrows its budget.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BUDGET = 300 * 1024;
const out = fileURLToPath(new URL("../../api/static/", import.meta.url));

const bytes = new Map();
/** Adds `file` and what it imports statically; the first screen's own chunk is named by the caller. */
function add(file) {
  if (bytes.has(file)) return;
  const text = readFileSync(`${out}assets/${file}`, "utf8");
  bytes.set(file, gzipSync(text).length);
  for (const [, next] of text.matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g)) add(next);
}

const html = readFileSync(`${out}index.html`, "utf8");
const [, entry] = html.match(/src="\/ui\/assets\/([^"]+\.js)"/);
add(entry);
const [first] = readFileSync(`${out}assets/${entry}`, "utf8").match(/OverviewScreen-[\w-]+\.js/) ?? [];
if (!first) throw new Error("the first screen's chunk is not where it was: mend scripts/budget.mjs");
add(first);

const total = [...bytes.values()].reduce((sum, size) => sum + size, 0);
console.log(`first load: ${(total / 1024).toFixed(0)} KiB of JavaScript, gzip (budget ${BUDGET / 1024})`);
if (total > BUDGET) process.exit(1);
