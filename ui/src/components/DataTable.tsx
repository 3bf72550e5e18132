import { VisuallyHidden } from "@mantine/core";
import type { ReactNode } from "react";
import classes from "./DataTable.module.css";

interface Props {
  /** Name of a table with a card of its own. Without it, the table is in a panel with a title. */
  label?: string;
  columns: readonly ReactNode[];
  /** The last cell of each row has buttons. */
  actions?: boolean;
  foot?: ReactNode;
  /** The rows. */
  children: ReactNode;
}

/** Table that scrolls by itself if it is wider than the window. */
export function DataTable({ label, columns, actions = false, foot, children }: Props) {
  const table = (
    <table className={classes.table}>
      <thead>
        <tr>
          {columns.map((column, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: columns never move.
            <th key={index} scope="col">
              {column}
            </th>
          ))}
          {actions && (
            <th>
              <VisuallyHidden>Actions</VisuallyHidden>
            </th>
          )}
        </tr>
      </thead>
      <tbody>{children}</tbody>
      {foot && <tfoot>{foot}</tfoot>}
    </table>
  );
  if (label === undefined)
    return (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard.
      <div className={classes.frame} tabIndex={0}>
        {table}
      </div>
    );
  return (
    <section
      className={`card ${classes.frame} ${classes.alone}`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard.
      tabIndex={0}
      aria-label={label}
    >
      {table}
    </section>
  );
}
