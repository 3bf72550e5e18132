import { Tooltip } from "@mantine/core";
import classes from "./LiveBadge.module.css";
import { useLiveState } from "./LiveProvider";
import type { LiveState } from "./stream";

const EXPLANATION: Record<LiveState, string> = {
  connecting: "Connecting to the service.",
  live: "Changes are shown as they happen.",
  reconnecting: "The connection was lost; the browser is reconnecting.",
  stale: "No connection for some time: the page may be out of date.",
};

export function LiveBadge() {
  const state = useLiveState();
  return (
    <Tooltip label={EXPLANATION[state]}>
      <span className={classes.badge} data-state={state} role="status" data-testid="live">
        <span className={classes.dot} aria-hidden />
        {state}
      </span>
    </Tooltip>
  );
}
