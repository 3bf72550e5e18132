import { useCallback, useRef } from "react";
import { idempotencyKey } from "./idempotencyKey";

/** The key of what is sent: pressed again after a broken connection it is the same submission, after a change another
 * one. */
export function useKeyOf(): (body: unknown) => string {
  const sent = useRef({ text: "", key: "" });
  return useCallback((body) => {
    const text = JSON.stringify(body);
    if (sent.current.text !== text) sent.current = { text, key: idempotencyKey() };
    return sent.current.key;
  }, []);
}
