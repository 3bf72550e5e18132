import type { ReactNode } from "react";
import classes from "./Figures.module.css";

/** The most important numbers, at the top of a screen. */
export function FigureList({ children }: { children: ReactNode }) {
  return <dl className={`card ${classes.figures}`}>{children}</dl>;
}

interface Props {
  name: string;
  note: ReactNode;
  trouble?: boolean;
  /** The value is text, not a number. */
  words?: boolean;
  children: ReactNode;
}

export function Figure({ name, note, trouble = false, words = false, children }: Props) {
  return (
    <div className={classes.figure}>
      <dt className={classes.name}>{name}</dt>
      <dd className={classes.value} data-words={words}>
        {children}
      </dd>
      <dd className={classes.note} data-trouble={trouble}>
        {note}
      </dd>
    </div>
  );
}
