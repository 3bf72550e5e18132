import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "../api/client";
import { keys } from "../api/keys";
import type { Experiment, Search, SearchSpec, Sweep, Trial } from "../api/types";

/** Refetch interval. No event announces logged metrics. */
const LOGGED_MS = 5_000;

export const sweepsQuery = queryOptions({
  queryKey: [keys.sweeps],
  queryFn: ({ signal }) =>
    unwrap(client.GET("/api/v1/sweeps", { params: { query: { limit: 100 } }, signal })),
});

/** Sweep with its first 1000 runs. They are compared by `metric`; empty: the sweep's own. */
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

/** Experiment with its first 1000 runs and their results. */
export function experimentQuery(id: string) {
  return queryOptions({
    queryKey: [keys.sweeps, id, "experiment"],
    queryFn: ({ signal }) => experimentPage(id, 0, signal),
    refetchInterval: ({ state }) => (state.data && isGoing(state.data) ? LOGGED_MS : false),
  });
}

function experimentPage(id: string, after: number, signal?: AbortSignal): Promise<Experiment> {
  return unwrap(
    client.GET("/api/v1/experiments/{sweep_id}", {
      params: { path: { sweep_id: id }, query: { after } },
      ...(signal && { signal }),
    }),
  );
}

/** Whether results may still arrive. They are stored soon after a run's end, without an event. */
const isGoing = ({ finished_at, table }: Experiment) =>
  finished_at === null || table.some((run) => run.results === null && run.state === "succeeded");

/** Fetch all runs, page by page, with the names of all responses. */
export async function allTrials(id: string): Promise<Pick<Experiment, "parameters" | "responses" | "table">> {
  const table: Trial[] = [];
  const responses = new Set<string>();
  let page = await experimentPage(id, 0);
  for (;;) {
    table.push(...page.table);
    for (const name of page.responses) responses.add(name);
    if (page.next === null) return { parameters: page.parameters, responses: [...responses].sort(), table };
    page = await experimentPage(id, page.next);
  }
}

/** Analysis of a response. `measured` is the number of runs with it: one more causes a new analysis. */
export function analysisQuery(id: string, response: string, measured: number) {
  return queryOptions({
    queryKey: [keys.sweeps, id, "analysis", response, String(measured)],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/experiments/{sweep_id}/analysis", {
          params: { path: { sweep_id: id }, query: { response } },
          signal,
        }),
      ),
    placeholderData: (before) => before,
  });
}

/** Search. No event announces its next trial, or why there is none. */
export function searchQuery(id: string) {
  return queryOptions({
    queryKey: [keys.sweeps, id, "search"],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/searches/{sweep_id}", { params: { path: { sweep_id: id } }, signal })),
    refetchInterval: ({ state }) => (state.data && state.data.finished_at === null ? LOGGED_MS : false),
  });
}

/** Start a search. Sending it again with the same `key` starts no second search. */
export function startSearch({ body, key }: { body: SearchSpec; key: string }): Promise<Search> {
  return unwrap(client.POST("/api/v1/searches", { body, params: { header: { "Idempotency-Key": key } } }));
}

export function cancelSweep(id: string): Promise<Sweep> {
  return unwrap(client.POST("/api/v1/sweeps/{sweep_id}/cancel", { params: { path: { sweep_id: id } } }));
}

/** Restart the runs that did not succeed, with new jobs. */
export function retrySweep(id: string): Promise<Sweep> {
  return unwrap(client.POST("/api/v1/sweeps/{sweep_id}/retry", { params: { path: { sweep_id: id } } }));
}
