import { type ReactNode, useEffect } from "react";
import { useLocation } from "react-router";
import classes from "./Screen.module.css";

interface Props {
  title: string;
  /** Beside the title: what can be done here. */
  actions?: ReactNode;
  children: ReactNode;
}

/** A screen's frame; its title is the document's too. */
export function Screen({ title, actions, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Schedulearn`;
  }, [title]);
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
