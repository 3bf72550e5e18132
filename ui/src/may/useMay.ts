import { useQuery } from "@tanstack/react-query";
import { whoQuery } from "../api/queries";
import type { Permission } from "../api/types";
import { type WhyNot, whyNot, whyNotOf } from "./may";

/** Who the service takes one for; undefined until it has said so. */
export const useMe = () => useQuery(whoQuery).data;

/** Why one may not do something; null: one may. */
export const useWhyNot = (permission: Permission): WhyNot => whyNot(useMe(), permission);

/** Why one may not change a job, or a sweep, of somebody. */
export const useWhyNotOf = (owner: string, what?: "job" | "sweep"): WhyNot => whyNotOf(useMe(), owner, what);
