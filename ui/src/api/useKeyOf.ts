import { useCallback, useRef } from "react";
import { idempotencyKey } from "./idempotencyKey";

/** Return the idempotency key for a request body. Pressing again after a broken connection is the same submission. A
 * changed body is another one. */
export function useKeyOf(): (body: unknown) => string {
  const sent = useRef({ text: "", key: "" });
  return useCallback((body) => {
    const text = JSON.stringify(body);
    if (sent.current.text !== text) sent.current = { text, key: idempotencyKey() };
    return sent.current.key;
  }, []);
}
