import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { keys } from "./keys";
import type { PolicyChoice } from "./types";

export const policyHistoryQuery = queryOptions({
  queryKey: [keys.policyHistory],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/policy/history", { signal })),
});

/** Simulated results of all policies for the present jobs. A comparison takes seconds, so only a button fetches it
 * again. */
export function comparisonQuery(hours: number) {
  return queryOptions({
    queryKey: ["comparison", hours],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/policy/comparison", { params: { query: { hours } }, signal })),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: (before) => before,
    retry: false,
  });
}

/** Effects of a policy choice. Fetched only by a button, and never shown when stale. */
export function previewQuery(choice: PolicyChoice, hours = 24) {
  return queryOptions({
    queryKey: ["preview", choice, hours],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/policy/preview", {
          params: {
            query: {
              algorithm: choice.algorithm,
              metric: choice.metric,
              params: JSON.stringify(choice.params ?? {}),
              hours,
            },
          },
          signal,
        }),
      ),
    gcTime: 0,
    retry: false,
  });
}

export const policyQuery = queryOptions({
  queryKey: [keys.policy],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/policy", { signal })),
});
