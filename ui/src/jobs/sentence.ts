/** The id of a job in a sentence: ten characters after a word that says what they are. */
const ID = /(\b(?:[Jj]ob|behind|than|up|when|for) )(\d[0-9a-hjkmnp-tv-z]{9})(?![\w-])/;

/** A sentence of the service, cut where it names jobs: text and ids by turns, text first. */
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

/** A sentence as plain text, with the names of the jobs that are known. */
export function withNames(text: string, names: Record<string, string>): string {
  return partsOf(text)
    .map((part, index) => (index % 2 === 1 ? (names[part] ?? part) : part))
    .join("");
}
