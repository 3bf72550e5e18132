import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { keys } from "./keys";
import type { PolicyChoice } from "./types";

export const policyHistoryQuery = queryOptions({
  queryKey: [keys.policyHistory],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/policy/history", { signal })),
});

/** What all policies would make of the jobs that there are; it takes seconds, so it is asked for anew only by a button. */
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

/** What a choice would change; asked for by a press of a button, and never shown when it is old. */
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
