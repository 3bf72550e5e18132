import { MutationCache, QueryCache } from "@tanstack/react-query";
import { ApiError } from "./client";
import { LiveQueryClient } from "./liveQueryClient";

/** Flag that the service asked for a token. React subscribes to this store. */
class Access {
  #needed = false;
  readonly #listeners = new Set<() => void>();

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  isNeeded = () => this.#needed;

  set(needed: boolean) {
    if (needed === this.#needed) return;
    this.#needed = needed;
    for (const listener of this.#listeners) listener();
  }
}

export const access = new Access();

function askForToken(error: Error) {
  if (error instanceof ApiError && error.status === 401) access.set(true);
}

export const queryClient = new LiveQueryClient({
  queryCache: new QueryCache({ onError: askForToken }),
  mutationCache: new MutationCache({ onError: askForToken }),
  defaultOptions: {
    queries: {
      // Live events make data stale. The time limit matters only while the event stream is broken.
      staleTime: 30_000,
      // Requests already wait for an unreachable service. Retries cover only replies that broke off.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status >= 400),
      // The browser's "offline" says nothing about a service on this machine.
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});
