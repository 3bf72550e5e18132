import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { keys } from "../api/keys";
import type { ServiceEvent } from "../api/types";
import { Collector, staleAfter } from "./stale";
import { type LiveState, Stream } from "./stream";

const REFETCH_MS = 500;
const Live = createContext<LiveState>("connecting");

/** Follows the service's events and has whatever they touch fetched again. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [state, setState] = useState<LiveState>("connecting");

  useEffect(() => {
    const collector = new Collector((found) => {
      for (const queryKey of found) queries.invalidateQueries({ queryKey });
    }, REFETCH_MS);
    const stream = new Stream({
      url: (position) => `/api/v1/events${position ? `?after=${position}` : ""}`,
      on: { message: (data) => collector.add(staleAfter(JSON.parse(data) as ServiceEvent)) },
      onState: setState,
      // What was fetched before the stream was up may have missed an event.
      onOpen: () => collector.add(Object.values(keys).map((key) => [key])),
      // An event stream can't tell 401 from 502; a query can, and then asks for the token.
      onRefused: () => collector.add([[keys.policy]]),
    });
    stream.start();
    return () => {
      stream.stop();
      collector.stop();
    };
  }, [queries]);

  return <Live value={state}>{children}</Live>;
}

export function useLiveState(): LiveState {
  return useContext(Live);
}
