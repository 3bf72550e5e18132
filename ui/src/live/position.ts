declare global {
  interface Window {
    /** Set by `public/early.js`; null: it could not be read. */
    newestEvent?: Promise<string | null>;
  }
}

/** It was asked for before the page's code, and is small: as a rule it is there. */
const PATIENCE_MS = 2_000;

let found: string | null = null;

/** To be called before anything is read of the service: only a newest event that was known before tells all changes of
 * what is read after it. */
export async function takePosition() {
  const late = new Promise<null>((resolve) => setTimeout(() => resolve(null), PATIENCE_MS));
  found = await Promise.race([window.newestEvent ?? null, late]);
}

/** The id of the event from which on the page listens; null: it was not known in time. */
export const position = () => found;
