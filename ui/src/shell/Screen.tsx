import { type ReactNode, useEffect } from "react";
import { useLocation } from "react-router";
import classes from "./Screen.module.css";

interface Props {
  title: string;
  /** What the browser's tab says in its place. */
  tab?: string | undefined;
  /** Beside the title: what can be done here. */
  actions?: ReactNode;
  children: ReactNode;
}

/** A screen's frame; its title is the document's too, unless it has one for that. */
export function Screen({ title, tab = title, actions, children }: Props) {
  useEffect(() => {
    document.title = `${tab} · Schedulearn`;
  }, [tab]);
  const { key, state } = useLocation();
  const byKey = (state as { byKey?: boolean } | null)?.byKey === true;
  // biome-ignore lint/correctness/useExhaustiveDependencies: another key is another visit.
  useEffect(() => {
    if (!byKey) return;
    const main = document.getElementById("main");
    (main?.querySelector<HTMLElement>("[data-first]") ?? main)?.focus();
  }, [key, byKey]);

  return (
    <>
      <div className={classes.head}>
        <h1 className={classes.title}>{title}</h1>
        {actions && <div className={classes.actions}>{actions}</div>}
      </div>
      {children}
    </>
  );
}
