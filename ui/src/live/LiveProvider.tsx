import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { keys } from "../api/keys";
import type { ServiceEvent } from "../api/types";
import { position } from "./position";
import { Collector, type QueryKey, slowlyStaleAfter, staleAfter } from "./stale";
import { type LiveState, Stream } from "./stream";

const REFETCH_MS = 500;
const HISTORY_MS = 5_000;
const SETTLE_MS = 2_000;
const Live = createContext<LiveState>("connecting");

/** Follow the service's events, and refetch the data that they make stale. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [state, setState] = useState<LiveState>("connecting");

  useEffect(() => {
    function invalidate(found: QueryKey[]) {
      for (const queryKey of found) queries.invalidateQueries({ queryKey });
    }
    const collector = new Collector(invalidate, REFETCH_MS);
    const history = new Collector(invalidate, HISTORY_MS);
    const from = position();
    let opened = false;
    let settling: ReturnType<typeof setTimeout> | undefined;
    const stream = new Stream({
      url: (position) => `/api/v1/events${position ? `?after=${position}` : ""}`,
      from,
      on: {
        message: (data) => {
          const event = JSON.parse(data) as ServiceEvent;
          collector.add(staleAfter(event));
          history.add(slowlyStaleAfter(event));
        },
      },
      onState: setState,
      onOpen: () => {
        // Data fetched before the stream opened may miss an event, unless the stream begins before it. On the first
        // connection this is all the data that the page just began to load. It is drawn before it is fetched again.
        clearTimeout(settling);
        if (!opened && from !== null) {
          opened = true;
          return;
        }
        settling = setTimeout(
          () => collector.add(Object.values(keys).map((key) => [key])),
          opened ? 0 : SETTLE_MS,
        );
        opened = true;
      },
      // An event stream can't distinguish 401 from 502. A query can, and it then asks for the token.
      onRefused: () => collector.add([[keys.policy]]),
    });
    stream.start();
    return () => {
      clearTimeout(settling);
      stream.stop();
      collector.stop();
      history.stop();
    };
  }, [queries]);

  return <Live value={state}>{children}</Live>;
}

export function useLiveState(): LiveState {
  return useContext(Live);
}
