import { type ReactNode, useEffect } from "react";
import { useLocation } from "react-router";
import classes from "./Screen.module.css";

interface Props {
  title: string;
  /** Title of the browser tab, in place of the screen's title. */
  tab?: string | undefined;
  /** Actions shown beside the title. */
  actions?: ReactNode;
  children: ReactNode;
}

/** Frame of a screen. Its title is also the document's, unless `tab` is set. */
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
