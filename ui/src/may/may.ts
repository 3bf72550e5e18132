import type { Permission, WhoAmI } from "../api/types";

type Me = Pick<WhoAmI, "name" | "refused">;

/** Reason why the user may not do something; null: they may. It is also null while the user is unknown. The service
 * then decides. */
export type WhyNot = string | null;

/** Return the reason in the service's words. The service holds the rules. */
export function whyNot(me: Me | undefined, permission: Permission): WhyNot {
  return me?.refused[permission] ?? null;
}

/** Return why the user may not change `owner`'s job or sweep. */
export function whyNotOf(
  me: Me | undefined,
  owner: string,
  what: "job" | "sweep" | "schedule" = "job",
): WhyNot {
  const role = whyNot(me, "change_own_jobs");
  if (role !== null || !me || owner === me.name || whyNot(me, "change_all_jobs") === null) return role;
  return `This ${what} belongs to ${owner || "no user"}: only the owner and admins may change it`;
}
