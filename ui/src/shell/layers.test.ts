import { expect, test } from "vitest";

const sources = import.meta.glob<string>("../**/*.{ts,tsx}", {
  query: "?raw",
  import: "default",
  eager: true,
});

/** Return the imports of a file. File and import are both relative to the source folder. */
function importsOf(file: string, text: string): string[] {
  return [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map(([, path = ""]) => {
    const { pathname } = new URL(path, `file:///${file}`);
    return pathname.slice(1);
  });
}

const screenOf = (path: string) => /^screens\/([^/]+)\//.exec(path)?.[1];

/** Files that map addresses to screens. */
const ROUTES = ["shell/App.tsx", "shell/screens.ts"];

test("a screen imports nothing of another screen, and what they share nothing of a screen", () => {
  const files = Object.entries(sources).map(
    ([path, text]) => [path.startsWith("./") ? `shell/${path.slice(2)}` : path.slice(3), text] as const,
  );
  const imports = files.flatMap(([file, text]) => importsOf(file, text).map((path) => [file, path] as const));
  expect(imports.filter(([file]) => screenOf(file)).length).toBeGreaterThan(100);
  const wrong = imports.filter(
    ([file, path]) => screenOf(path) && screenOf(path) !== screenOf(file) && !ROUTES.includes(file),
  );
  expect(wrong).toEqual([]);
});

test("no file imports itself by way of others", () => {
  const nameOf = (path: string) => path.replace(/(\/index)?\.tsx?$/, "");
  const left = new Map(
    Object.entries(sources).map(([path, text]) => {
      const file = path.startsWith("./") ? `shell/${path.slice(2)}` : path.slice(3);
      const code = text.replace(/(?:import|export) type [^;]+;/g, "");
      return [nameOf(file), importsOf(file, code)] as const;
    }),
  );
  for (let before = Number.POSITIVE_INFINITY; left.size < before; ) {
    before = left.size;
    for (const [file, paths] of left) if (!paths.some((path) => left.has(path))) left.delete(file);
  }
  expect([...left.keys()]).toEqual([]);
});
