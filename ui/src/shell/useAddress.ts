import { useCallback, useEffect, useRef, useState } from "react";
import { useSearchParams } from "react-router";

const SETTLE_MS = 250;

/** Return a setter for one parameter of the address; null removes it. */
export function useSetAddress(): (name: string, value: string | null) => void {
  const [, setAddress] = useSearchParams();
  return useCallback(
    (name, value) => {
      // Uses the present address, not the one of the last render: two changes may come between two frames.
      const next = new URLSearchParams(window.location.search);
      if (value === null) next.delete(name);
      else next.set(name, value);
      setAddress(next, { replace: true });
    },
    [setAddress],
  );
}

/**
 * Text field whose value is also in the address.
 *
 * `settled` is the value in the address, for searches. `typed` is the field's text, and `type` changes it. The address
 * follows after a pause. React renders it with low priority, so a field bound to it would lose letters typed meanwhile.
 */
export function useAddressText(name: string, usual = "") {
  const [address] = useSearchParams();
  const set = useSetAddress();
  const settled = address.get(name) ?? usual;
  const [typed, setTyped] = useState(settled);
  // Values that the field wrote to the address. Any other value comes from elsewhere, and the field adopts it.
  const own = useRef([settled]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  useEffect(() => {
    if (own.current.includes(settled)) {
      own.current = own.current.slice(own.current.lastIndexOf(settled));
      return;
    }
    clearTimeout(timer.current);
    own.current = [settled];
    setTyped(settled);
  }, [settled]);
  useEffect(() => () => clearTimeout(timer.current), []);

  function type(text: string) {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      own.current.push(text);
      set(name, text === usual ? null : text);
    }, SETTLE_MS);
  }
  return { settled, typed, type };
}
