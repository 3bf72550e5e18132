import type { NewToken, Role } from "../api/types";

const RANKS: readonly Role[] = ["viewer", "user", "admin"];

/** What a token of somebody may be good for: no more than its owner, the least first. */
export const rolesUpTo = (most: Role): Role[] => RANKS.slice(0, RANKS.indexOf(most) + 1);

/** What a token is good for unless told otherwise: an admin's work only where that is asked for. */
export const usualRole = (most: Role): Role => (most === "admin" ? "user" : most);

/** How long a token is good for, in days; "": until it is revoked. */
export const ENDS = { "7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "": "never" };
export type Ends = keyof typeof ENDS;

/** What its owner types into a shell so that the command line uses the token. */
export function shellLine(token: Pick<NewToken, "token" | "certificate">, origin: string): string {
  const trust =
    token.certificate && origin.startsWith("https:") ? ` SCHEDULEARN_CA=${token.certificate}` : "";
  return `export SCHEDULEARN_URL=${origin}${trust} SCHEDULEARN_TOKEN=${token.token}`;
}

/** The token in what somebody pasted: itself, or the line for a shell that it was sent in. */
export function tokenIn(text: string): string {
  return /SCHEDULEARN_TOKEN=["']?([^\s"']+)/.exec(text)?.[1] ?? text.trim();
}
