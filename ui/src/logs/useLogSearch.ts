import { useEffect, useMemo, useReducer } from "react";
import type { LogBuffer } from "./LogBuffer";
import { LogSearch } from "./LogSearch";

const SLICE_MS = 10;
const SHOW_MS = 100;

/** The lines that match, as far as they were looked at; null without a pattern. `version`: of the log. */
export function useLogSearch(
  log: LogBuffer,
  version: number,
  wanted: RegExp | null,
): readonly number[] | null {
  const [, show] = useReducer((count: number) => count + 1, 0);
  const search = useMemo(() => (wanted ? new LogSearch(log, wanted) : null), [log, wanted]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the lines are one array that grows; its version tells.
  useEffect(() => {
    if (!search) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let shown = performance.now();
    function look() {
      const done = search?.advance(SLICE_MS);
      if (done || performance.now() - shown > SHOW_MS) {
        shown = performance.now();
        show();
      }
      if (!done) timer = setTimeout(look, 0);
    }
    look();
    return () => clearTimeout(timer);
  }, [search, version]);
  return search?.found ?? null;
}
