// Fails the build when the JavaScript that the first screen loads outgrows its budget.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BUDGET = 250 * 1024;
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
// What the first screen loads beside it: its charts.
for (const name of [/PastCharts-[\w-]+\.js/, /Plot-[\w-]+\.js/]) {
  const [found] =
    readFileSync(`${out}assets/${entry}`, "utf8").match(name) ??
    [...bytes.keys()]
      .map((file) => readFileSync(`${out}assets/${file}`, "utf8").match(name)?.[0])
      .filter(Boolean);
  if (!found) throw new Error(`no chunk like ${name}: mend scripts/budget.mjs`);
  add(found);
}

const total = [...bytes.values()].reduce((sum, size) => sum + size, 0);
console.log(`first load: ${(total / 1024).toFixed(0)} KiB of JavaScript, gzip (budget ${BUDGET / 1024})`);
if (total > BUDGET) process.exit(1);
