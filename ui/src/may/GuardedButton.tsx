import { Button, type ButtonProps, Tooltip } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "react-router";
import type { WhyNot } from "./may";

interface Props extends ButtonProps {
  /** Reason why it can't be pressed; null: it can. */
  whyNot: WhyNot;
  onClick?: () => void;
  /** Link target, in place of `onClick`. */
  to?: string;
  type?: "submit";
  "aria-label"?: string;
  children: ReactNode;
}

/** Button for an action that needs permission. It keeps focus while disabled, so screen readers read its reason. */
export function GuardedButton({ whyNot, to, onClick, ...props }: Props) {
  if (whyNot !== null)
    return (
      <Tooltip label={whyNot} multiline maw={320} events={{ hover: true, focus: true, touch: true }}>
        <Button
          {...props}
          type="button"
          disabled={false}
          data-disabled
          aria-disabled
          aria-description={whyNot}
        />
      </Tooltip>
    );
  if (to !== undefined) {
    const { type: _, ...look } = props;
    return <Button component={Link} to={to} {...look} />;
  }
  return <Button {...props} onClick={onClick} />;
}
