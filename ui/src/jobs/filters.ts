import type { JobSort, JobState, WhoAmI } from "../api/types";
import { GROUPS, isGroup, type JobGroup } from "./states";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Filters by end time. Unfinished jobs count as today's. */
export const ENDED = {
  "1h": "in the last hour",
  "24h": "in the last 24 h",
  today: "today",
  yesterday: "yesterday",
  "7d": "in the last 7 d",
} as const;

type Ended = keyof typeof ENDED;
const SPANS: Partial<Record<Ended, number>> = { "1h": HOUR_MS, "24h": DAY_MS, "7d": 7 * DAY_MS };

/** Filter and order of a list of jobs, as in the address. */
export interface JobsChoice {
  group: JobGroup;
  text: string;
  user: string;
  label: string;
  host: string;
  ended: Ended | "";
  sort: JobSort | "";
}

/** Filter as the service expects it. */
export interface JobsFilter extends Omit<JobsChoice, "group" | "ended"> {
  states: JobState[];
  /** Epoch ms. */
  endedSince: number | null;
  endedUntil: number | null;
}

const COLUMNS = ["state", "name", "user", "gpus", "started", "finished", "duration"] as const;
export type SortColumn = (typeof COLUMNS)[number];

const isEnded = (name: string | null): name is Ended => name !== null && Object.hasOwn(ENDED, name);
const isSort = (name: string): name is JobSort =>
  (COLUMNS as readonly string[]).includes(name.replace(/^-/, ""));

/**
 * Read the filter from the address. `who` is the current user.
 *
 * Users see their own jobs unless the address names another user. Admins and viewers have no jobs of their own to look
 * for. An address with an empty `user=` shows everybody's jobs.
 */
export function choiceOf(address: URLSearchParams, who?: Pick<WhoAmI, "name" | "role">): JobsChoice {
  const own = who?.role === "user" ? who.name : "";
  const show = address.get("show");
  const ended = address.get("ended");
  const sort = address.get("sort") ?? "";
  return {
    group: isGroup(show) ? show : "all",
    text: address.get("q")?.trim() ?? "",
    user: address.get("user") ?? own,
    label: address.get("label") ?? "",
    host: address.get("host") ?? "",
    ended: isEnded(ended) ? ended : "",
    sort: isSort(sort) ? sort : "",
  };
}

/** Return the service's filter. `now` is in whole minutes, so that the query key stays the same within a minute. */
export function filterOf({ group, ended, ...rest }: JobsChoice, now: number): JobsFilter {
  const today = new Date(now).setHours(0, 0, 0, 0);
  const yesterday = new Date(today - HOUR_MS).setHours(0, 0, 0, 0); // days have 23 to 25 hours
  const span = ended && SPANS[ended];
  return {
    ...rest,
    states: GROUPS[group].states,
    endedSince: span ? now - span : ended === "today" ? today : ended === "yesterday" ? yesterday : null,
    endedUntil: ended === "yesterday" ? today : null,
  };
}

/** Return the order after a click on a column's name. It is the column's usual order, then the reverse, then none. */
export function nextSort(column: SortColumn, now: JobSort | ""): JobSort | "" {
  const usual: JobSort = ["started", "finished", "duration", "gpus"].includes(column) ? `-${column}` : column;
  const other: JobSort = usual === column ? `-${column}` : column;
  if (now === usual) return other;
  return now === other ? "" : usual;
}
