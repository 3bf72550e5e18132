import type { NewToken, Role } from "../api/types";

const RANKS: readonly Role[] = ["metrics", "viewer", "user", "admin"];

/** Return the possible roles of a token, lowest first. None exceeds its owner's role. */
export const rolesUpTo = (most: Role): Role[] => RANKS.slice(0, RANKS.indexOf(most) + 1);

/** Return the default role of a token. The admin role must be chosen explicitly. */
export const usualRole = (most: Role): Role => (most === "admin" ? "user" : most);

/** Lifetimes of a token in days; "": until revoked. */
export const ENDS = { "7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "": "never" };
export type Ends = keyof typeof ENDS;

/** Return the shell line for the owner. It makes the command line use the token. */
export function shellLine(token: Pick<NewToken, "token" | "certificate">, origin: string): string {
  const trust =
    token.certificate && origin.startsWith("https:") ? ` SCHEDULEARN_CA=${token.certificate}` : "";
  return `export SCHEDULEARN_URL=${origin}${trust} SCHEDULEARN_TOKEN=${token.token}`;
}

/** Return the token in pasted text. The text is the token itself or the shell line. */
export function tokenIn(text: string): string {
  return /SCHEDULEARN_TOKEN=["']?([^\s"']+)/.exec(text)?.[1] ?? text.trim();
}
