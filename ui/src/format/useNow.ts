import { useSyncExternalStore } from "react";
import { clock } from "./clock";

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void) {
  listeners.add(listener);
  timer ??= setInterval(() => {
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

const MINUTE_MS = 60_000;

/** Start of the present minute (epoch ms). A query by time keeps its key until the next minute. */
export const wholeMinute = () => Math.floor(clock.now() / MINUTE_MS) * MINUTE_MS;

/** Current epoch milliseconds in whole steps, from one timer for the page. Two reads in one render agree. */
export function useNow(stepMs = 1000): number {
  return useSyncExternalStore(subscribe, () => Math.floor(clock.now() / stepMs) * stepMs);
}
