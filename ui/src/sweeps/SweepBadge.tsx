import type { Run, SweepState } from "../api/types";
import classes from "../jobs/StateBadge.module.css";
import { LOOKS } from "../jobs/states";
import { Icon } from "../shell/Icon";
import { LOOKS_LIKE } from "./runs";

/** State of a sweep or of one of its runs. */
export function SweepBadge({ state }: { state: SweepState | Run["state"] }) {
  const { icon, tone } = LOOKS[LOOKS_LIKE[state]];
  return (
    <span className={classes.badge} data-tone={tone} data-testid="state">
      <Icon name={icon} size={13} />
      {state}
    </span>
  );
}
