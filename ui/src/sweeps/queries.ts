import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "../api/client";
import { keys } from "../api/keys";
import type { Sweep } from "../api/types";

/** What jobs log comes without an event. */
const LOGGED_MS = 5_000;

export const sweepsQuery = queryOptions({
  queryKey: [keys.sweeps],
  queryFn: ({ signal }) =>
    unwrap(client.GET("/api/v1/sweeps", { params: { query: { limit: 100 } }, signal })),
});

/** A sweep with the first thousand of its runs; `metric`: by what they are compared, empty: by the sweep's own. */
export function sweepQuery(id: string, metric: string, goal: "min" | "max" | "") {
  return queryOptions({
    queryKey: [keys.sweeps, id, metric, goal],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/sweeps/{sweep_id}", {
          params: {
            path: { sweep_id: id },
            query: { metric: metric || undefined, goal: goal || undefined },
          },
          signal,
        }),
      ),
    placeholderData: (before) => before,
    refetchInterval: ({ state }) => (state.data && state.data.finished_at === null ? LOGGED_MS : false),
  });
}

export function cancelSweep(id: string): Promise<Sweep> {
  return unwrap(client.POST("/api/v1/sweeps/{sweep_id}/cancel", { params: { path: { sweep_id: id } } }));
}

/** Runs that did not succeed start again, with new jobs. */
export function retrySweep(id: string): Promise<Sweep> {
  return unwrap(client.POST("/api/v1/sweeps/{sweep_id}/retry", { params: { path: { sweep_id: id } } }));
}
