import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { policyHistoryQuery } from "../api/policyQueries";
import type { Marker } from "./Chart";

/** Markers of the policy changes, for every time axis. */
export function usePolicyMarkers(): readonly Marker[] {
  const { data } = useQuery(policyHistoryQuery);
  return useMemo(
    () => (data ?? []).map(({ at, algorithm }) => ({ x: Date.parse(at) / 1000, text: algorithm })),
    [data],
  );
}
