import { useQuery } from "@tanstack/react-query";
import type { Outage } from "../api/connection";
import { clusterQuery } from "../api/queries";
import { connection } from "../api/service";
import { when } from "../format/time";
import { useNow } from "../format/useNow";
import { Icon } from "../shell/Icon";
import classes from "./OutageBanner.module.css";

/** Banner for the whole page, shown while its data is outdated. */
export function OutageBanner({ outage }: { outage: Outage }) {
  const now = useNow();
  const left = outage.retryAt === null ? 0 : Math.ceil((outage.retryAt - now) / 1000);
  return (
    <div className={classes.banner} data-testid="outage">
      <div className={classes.inner}>
        <Icon name="alert" size={14} />
        <span className={classes.text}>
          <span role="status">No connection since {when(outage.since, now, true)}</span>
          {/* It changes every second, so screen readers skip it. */}
          <span aria-hidden>, {left > 0 ? `retrying in ${left} s` : "retrying now"}</span>
        </span>
        <button type="button" className={classes.now} onClick={connection.retryNow}>
          Try now
        </button>
      </div>
    </div>
  );
}

/** Banner on every screen for a full disk. It says what is refused and who can fix it. */
export function DiskBanner() {
  const { data } = useQuery({ ...clusterQuery, refetchInterval: 60_000 });
  if (!data?.disk_low) return null;
  return (
    <div className={classes.banner} role="status" data-testid="disk-low">
      <div className={classes.inner}>
        <Icon name="alert" size={14} />
        <span className={classes.text}>
          The service's disk is almost full: it accepts no jobs, code, data or log lines until an
          administrator frees disk space.
        </span>
      </div>
    </div>
  );
}
