import { type ReactNode, useEffect } from "react";
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
