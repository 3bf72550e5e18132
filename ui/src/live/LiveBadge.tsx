import { Tooltip } from "@mantine/core";
import classes from "./LiveBadge.module.css";
import { useLiveState } from "./LiveProvider";
import type { LiveState } from "./stream";

const EXPLANATION: Record<LiveState, string> = {
  connecting: "Connecting to the service.",
  live: "Changes show as they happen.",
  reconnecting: "The connection broke; the browser is connecting again.",
  stale: "No connection for a while: what you see may be out of date.",
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
