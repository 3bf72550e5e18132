import { useSyncExternalStore } from "react";

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

/** Whole seconds, so that two looks in one render agree. */
const read = () => Math.floor(Date.now() / 1000) * 1000;

/** Epoch milliseconds, once a second; one timer for the whole page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, read);
}
