import type { Permission, WhoAmI } from "../api/types";

type Me = Pick<WhoAmI, "name" | "refused">;

/** Why somebody may not do something; null: they may. Also null while it is not known who they are: then the service
 * decides. */
export type WhyNot = string | null;

/** Why not, in the service's words: it holds the rules. */
export function whyNot(me: Me | undefined, permission: Permission): WhyNot {
  return me?.refused[permission] ?? null;
}

/** Why not change what belongs to `owner`: a job, or a sweep. */
export function whyNotOf(me: Me | undefined, owner: string, what: "job" | "sweep" = "job"): WhyNot {
  const role = whyNot(me, "change_own_jobs");
  if (role !== null || !me || owner === me.name || whyNot(me, "change_all_jobs") === null) return role;
  return `This ${what} is ${owner || "nobody"}'s: only they and admins may change it`;
}
