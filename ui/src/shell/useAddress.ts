import { useCallback, useEffect, useRef, useState } from "react";
import { useSearchParams } from "react-router";

const SETTLE_MS = 250;

/** Changes one parameter of the address; null takes it away. */
export function useSetAddress(): (name: string, value: string | null) => void {
  const [, setAddress] = useSearchParams();
  return useCallback(
    (name, value) => {
      // Of the address as it is now, not as it was when this was drawn: two may change it between two frames.
      const next = new URLSearchParams(window.location.search);
      if (value === null) next.delete(name);
      else next.set(name, value);
      setAddress(next, { replace: true });
    },
    [setAddress],
  );
}

/**
 * Text that somebody types and that stands in the address too: its value there (for what is searched), as it is typed
 * (for the field), and what changes it. The address follows after a pause: it is drawn when there is time, and a field
 * that waited for it would lose the letters typed meanwhile.
 */
export function useAddressText(name: string, usual = "") {
  const [address] = useSearchParams();
  const set = useSetAddress();
  const settled = address.get(name) ?? usual;
  const [typed, setTyped] = useState(settled);
  // What the field has put into the address: any other value comes from elsewhere, and the field takes it over.
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
