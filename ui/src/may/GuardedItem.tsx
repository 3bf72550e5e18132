import { Menu, Tooltip } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "react-router";
import type { WhyNot } from "./may";

interface Props {
  /** Reason why it can't be chosen; null: it can. */
  whyNot: WhyNot;
  onClick?: () => void;
  /** Link target, in place of `onClick`. */
  to?: string;
  color?: string;
  disabled?: boolean;
  children: ReactNode;
}

/** Menu item for an action that needs permission. */
export function GuardedItem({ whyNot, to, onClick, ...props }: Props) {
  if (whyNot !== null)
    return (
      <Tooltip label={whyNot} multiline maw={320} events={{ hover: true, focus: true, touch: true }}>
        <Menu.Item c="dimmed" aria-disabled aria-description={whyNot} closeMenuOnClick={false}>
          {props.children}
        </Menu.Item>
      </Tooltip>
    );
  if (to !== undefined) return <Menu.Item component={Link} to={to} {...props} />;
  return <Menu.Item {...props} onClick={onClick} />;
}
