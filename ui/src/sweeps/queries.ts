import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "../api/client";
import { keys } from "../api/keys";
import type { Experiment, Search, SearchSpec, Sweep, Trial } from "../api/types";

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

/** An experiment with the first thousand of its runs, and what they came to. */
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

/** What a run came to is stored soon after its end, without an event. */
const isGoing = ({ finished_at, table }: Experiment) =>
  finished_at === null || table.some((run) => run.results === null && run.state === "succeeded");

/** All of its runs, page by page; and all that any of them was measured by. */
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

/** `measured`: how many runs have the response; one more, and it is analyzed anew. */
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

/** What the next trial is, and why there is none, is worked out without an event. */
export function searchQuery(id: string) {
  return queryOptions({
    queryKey: [keys.sweeps, id, "search"],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/searches/{sweep_id}", { params: { path: { sweep_id: id } }, signal })),
    refetchInterval: ({ state }) => (state.data && state.data.finished_at === null ? LOGGED_MS : false),
  });
}

/** `key`: sent again with the same one, it is the same search. */
export function startSearch({ body, key }: { body: SearchSpec; key: string }): Promise<Search> {
  return unwrap(client.POST("/api/v1/searches", { body, params: { header: { "Idempotency-Key": key } } }));
}

export function cancelSweep(id: string): Promise<Sweep> {
  return unwrap(client.POST("/api/v1/sweeps/{sweep_id}/cancel", { params: { path: { sweep_id: id } } }));
}

/** Runs that did not succeed start again, with new jobs. */
export function retrySweep(id: string): Promise<Sweep> {
  return unwrap(client.POST("/api/v1/sweeps/{sweep_id}/retry", { params: { path: { sweep_id: id } } }));
}
