import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { policyHistoryQuery } from "../api/policyQueries";
import type { Marker } from "./Chart";

/** A line for each change of the policy, as every axis of time has them. */
export function usePolicyMarkers(): readonly Marker[] {
  const { data } = useQuery(policyHistoryQuery);
  return useMemo(
    () => (data ?? []).map(({ at, algorithm }) => ({ x: Date.parse(at) / 1000, text: algorithm })),
    [data],
  );
}
