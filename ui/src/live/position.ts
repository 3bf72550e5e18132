declare global {
  interface Window {
    /** Set by `public/early.js`; null: it could not be read. */
    newestEvent?: Promise<string | null>;
  }
}

/** Maximum wait. The request starts before the page's code and is small, so it has usually finished. */
const PATIENCE_MS = 2_000;

let found: string | null = null;

/** Read the position of the newest event. Call this before any other read. Only from a position that was known
 * before a read do later events cover all changes to that read. */
export async function takePosition() {
  const late = new Promise<null>((resolve) => setTimeout(() => resolve(null), PATIENCE_MS));
  found = await Promise.race([window.newestEvent ?? null, late]);
}

/** Return the id of the event after which the page listens. null means that it was not known in time. */
export const position = () => found;
