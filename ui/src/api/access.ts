import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { ApiError } from "./client";

/** Whether the service has asked for its token; a store that React subscribes to. */
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

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: askForToken }),
  mutationCache: new MutationCache({ onError: askForToken }),
  defaultOptions: {
    queries: {
      // Live events make data stale; the time is for what comes while the stream is broken.
      staleTime: 30_000,
      // Requests wait for a service that is away; what is left are answers that broke off.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status >= 400),
      // What the browser takes for offline says nothing about a service on this machine.
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});
