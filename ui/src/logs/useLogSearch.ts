import { useEffect, useMemo, useReducer, useRef } from "react";
import type { LogBuffer } from "./LogBuffer";
import { LogSearch, type Search } from "./LogSearch";
import { PatternSearch } from "./PatternSearch";
import { PatternWorker } from "./PatternWorker";

const SLICE_MS = 10;
const SHOW_MS = 100;

/** Return the matching lines found yet; null without a pattern. `version` is the log's. With `regular`, the pattern
 * is a user's regular expression and may never end. */
export function useLogSearch(
  log: LogBuffer,
  version: number,
  wanted: RegExp | null,
  regular = false,
): Search | null {
  const [, show] = useReducer((count: number) => count + 1, 0);
  const text = useMemo(
    () => (wanted && !regular ? new LogSearch(log, wanted) : null),
    [log, wanted, regular],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: the lines are one growing array; its version changes.
  useEffect(() => {
    if (!text) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let shown = performance.now();
    function look() {
      const done = text?.advance(SLICE_MS);
      if (done || performance.now() - shown > SHOW_MS) {
        shown = performance.now();
        show();
      }
      if (!done) timer = setTimeout(look, 0);
    }
    look();
    return () => clearTimeout(timer);
  }, [text, version]);

  const worker = useRef<PatternWorker | null>(null);
  useEffect(() => () => worker.current?.end(), []);
  const pattern = useMemo(() => {
    if (!wanted || !regular) return null;
    worker.current ??= new PatternWorker();
    let due = false;
    return new PatternSearch(log, wanted, worker.current, () => {
      if (due) return;
      due = true;
      setTimeout(() => {
        due = false;
        show();
      }, SHOW_MS);
    });
  }, [log, wanted, regular]);
  useEffect(() => () => pattern?.end(), [pattern]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the lines are one growing array; its version changes.
  useEffect(() => {
    pattern?.look();
  }, [pattern, version]);
  return pattern ?? text;
}
