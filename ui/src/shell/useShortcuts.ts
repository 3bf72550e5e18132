import { useEffect } from "react";
import { useNavigate } from "react-router";
import { Keys } from "./shortcuts";

const FIELDS = "input, textarea, select, [contenteditable], [role=dialog], [role=application]";

/** The page's keys, for as long as the shell is shown. */
export function useShortcuts() {
  const navigate = useNavigate();
  useEffect(() => {
    const keys = new Keys();
    function onKey(event: KeyboardEvent) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (event.target instanceof Element && event.target.closest(FIELDS)) return;
      const found = keys.feed(event.key, event.timeStamp);
      if (!found) return;
      event.preventDefault();
      if (found.to) {
        navigate(found.to);
        return;
      }
      // The screen's own search, where it has one.
      const field = document.querySelector<HTMLInputElement>(
        '#main input[placeholder="Search"], #main [data-search]',
      );
      if (field) field.focus();
      else navigate("/jobs");
    }
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [navigate]);
}
