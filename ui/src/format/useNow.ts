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

/** The present minute, epoch ms: what is asked for by time is the same question until the next one. */
export const wholeMinute = () => Math.floor(clock.now() / MINUTE_MS) * MINUTE_MS;

/** Epoch milliseconds, in whole steps, so that two looks in one render agree; one timer for the whole page. */
export function useNow(stepMs = 1000): number {
  return useSyncExternalStore(subscribe, () => Math.floor(clock.now() / stepMs) * stepMs);
}
