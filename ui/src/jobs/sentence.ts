/** Job id in a sentence. It has ten characters, after a word that announces it. */
const ID = /(\b(?:[Jj]ob|after|behind|for|of|than|to|up|when) )(\d[0-9a-hjkmnp-tv-z]{9})(?![\w-])/;

/** Split a sentence of the service at job ids. Text and ids alternate, text first. */
export function partsOf(text: string): string[] {
  const parts: string[] = [];
  let rest = text;
  for (let found = ID.exec(rest); found !== null; found = ID.exec(rest)) {
    const [whole, before = "", id = ""] = found;
    parts.push(rest.slice(0, found.index) + before, id);
    rest = rest.slice(found.index + whole.length);
  }
  return [...parts, rest];
}

/** Replace known job ids in a sentence by names, as plain text. */
export function withNames(text: string, names: Record<string, string>): string {
  return partsOf(text)
    .map((part, index) => (index % 2 === 1 ? (names[part] ?? part) : part))
    .join("");
}
