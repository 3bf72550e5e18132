import { notifications } from "@mantine/notifications";
import { useEffect, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { queryClient } from "../api/access";
import { whoQuery } from "../api/queries";
import { whyNot } from "../may/may";
import { SCREENS } from "./places";
import { Keys } from "./shortcuts";

/** Keys that have an effect only on screens with a list. */
const LISTED: readonly string[] = ["j", "k", "x"];
const FIELDS = "input, textarea, select, [contenteditable], [role=dialog], [role=application]";

/** Navigation state of a screen opened by a key. The keyboard focus then moves into it. */
export const BY_KEY = { byKey: true };

type ScreenKeys = Readonly<Record<string, () => void>>;
const screenKeys = new Set<{ current: ScreenKeys }>();

/** Set the screen's actions for SHORTCUTS that open no screen. */
export function useScreenKeys(acts: ScreenKeys) {
  const current = useRef(acts);
  current.current = acts;
  useEffect(() => {
    screenKeys.add(current);
    return () => {
      screenKeys.delete(current);
    };
  }, []);
}

/** Handle the page's shortcuts while the shell is shown. `show` opens a dialog over the screen. `covered` says
 * whether one is open. */
export function useShortcuts(show: (over: "keys" | "palette") => void, covered: boolean) {
  const paused = useRef(covered);
  paused.current = covered;
  const navigate = useNavigate();
  // Persists across screens: the listener is replaced after each change, perhaps between two keys.
  const [keys] = useState(() => new Keys());
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) {
        event.preventDefault(); // also in a field, and where a browser would search the web
        show("palette");
        return;
      }
      // Keys typed before a newly opened dialog has the focus are meant for the dialog.
      if (paused.current || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (event.target instanceof Element && event.target.closest(FIELDS)) return;
      const found = keys.feed(event.key, event.timeStamp);
      if (!found) return;
      const acts = [...screenKeys].map((keys) => keys.current[found.keys]).filter((act) => act !== undefined);
      if (acts.length === 0 && LISTED.includes(found.keys)) return;
      event.preventDefault();
      if (acts.length > 0) {
        for (const act of acts) act();
        return;
      }
      if (found.to) {
        const needs = SCREENS.find(({ to }) => to === found.to)?.needs;
        const why = needs ? whyNot(queryClient.getQueryData(whoQuery.queryKey), needs) : null;
        if (why !== null) {
          notifications.show({ message: `${why}.` });
          return;
        }
        navigate(found.to, { state: BY_KEY });
        return;
      }
      if (found.keys === "?") {
        show("keys");
        return;
      }
      // The screen's own search, if it has one.
      const field = document.querySelector<HTMLInputElement>(
        '#main input[placeholder="Search"], #main [data-search]',
      );
      if (field) field.focus();
      else navigate("/jobs", { state: BY_KEY });
    }
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [keys, navigate, show]);
}
