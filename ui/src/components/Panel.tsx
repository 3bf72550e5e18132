import type { ReactNode } from "react";
import classes from "./Panel.module.css";

interface Props {
  title: string;
  action?: ReactNode;
  children: ReactNode;
}

export function Panel({ title, action, children }: Props) {
  return (
    <section className={`card ${classes.panel}`} aria-label={title}>
      <div className={classes.head}>
        <h2 className="section-title">{title}</h2>
        {action}
      </div>
      {children}
    </section>
  );
}

/** Row of a <dl>. */
export function Fact({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
