import {
  type InvalidateOptions,
  type InvalidateQueryFilters,
  type Query,
  QueryClient,
  type QueryKey,
} from "@tanstack/react-query";

/** QueryClient that refetches queries whose data became stale during their first fetch.
 *
 * TanStack Query restarts a fetch under way when its query is invalidated, but only if the query has data and is shown.
 * Otherwise it keeps the fetch and takes its result as fresh, although the service may have replied before the change.
 * The page would show that state until the next change. */
export class LiveQueryClient extends QueryClient {
  readonly #waiting = new Map<Query, Promise<void>>();

  override async invalidateQueries<K extends QueryKey = QueryKey>(
    filters?: InvalidateQueryFilters<K>,
    options?: InvalidateOptions,
  ): Promise<void> {
    const before = this.getQueryCache()
      .findAll(filters)
      .map((query) => ({ query, fetch: query.promise }));
    const done = super.invalidateQueries(filters, options);
    const kept = before.filter(({ query, fetch }) => fetch !== undefined && query.promise === fetch);
    await Promise.all([done, ...kept.map(({ query }) => this.#afterFetch(query))]);
  }

  /** Invalidate a query once its fetch has ended. A fetch that fails or is cancelled leaves nothing stale. */
  #afterFetch(query: Query): Promise<void> {
    let waiting = this.#waiting.get(query);
    if (!waiting) {
      waiting = Promise.resolve(query.promise)
        .then(
          () => super.invalidateQueries({ queryKey: query.queryKey, exact: true }),
          () => {},
        )
        .finally(() => this.#waiting.delete(query));
      this.#waiting.set(query, waiting);
    }
    return waiting;
  }
}
