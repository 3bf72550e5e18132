import type { JobState } from "../api/types";
import { Icon } from "../shell/Icon";
import classes from "./StateBadge.module.css";
import { LOOKS } from "./states";

export function StateBadge({ state }: { state: JobState }) {
  const { icon, tone } = LOOKS[state];
  return (
    <span className={classes.badge} data-tone={tone} data-testid="state">
      <Icon name={icon} size={13} />
      {state}
    </span>
  );
}
