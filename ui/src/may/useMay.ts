import { useQuery } from "@tanstack/react-query";
import { whoQuery } from "../api/queries";
import type { Permission } from "../api/types";
import { type WhyNot, whyNot, whyNotOf } from "./may";

/** Return the current user; undefined until the service has replied. */
export const useMe = () => useQuery(whoQuery).data;

/** Return why the current user may not do something; null: they may. */
export const useWhyNot = (permission: Permission): WhyNot => whyNot(useMe(), permission);

/** Return why the user may not change `owner`'s job or sweep. */
export const useWhyNotOf = (owner: string, what?: "job" | "sweep" | "schedule"): WhyNot =>
  whyNotOf(useMe(), owner, what);
