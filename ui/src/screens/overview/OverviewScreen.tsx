import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { clusterQuery, runningNamesQuery, watchedHostsQuery } from "../../api/queries";
import type { Cluster, Host, Job } from "../../api/types";
import { EmptyJobs } from "../../jobs/EmptyJobs";
import { groupCount } from "../../jobs/states";
import { GuardedButton } from "../../may/GuardedButton";
import { useWhyNot } from "../../may/useMay";
import { Code } from "../../shell/code";
import { Icon } from "../../shell/Icon";
import { LoadedAll } from "../../shell/Loaded";
import { Part } from "../../shell/Part";
import { Screen } from "../../shell/Screen";
import { Figures } from "./Figures";
import { GpuMap } from "./GpuMap";
import classes from "./OverviewScreen.module.css";
import { Queue } from "./Queue";

const NO_NAMES = {};
const PastCharts = new Code("past charts", () => import("./PastCharts")).Component;

export default function OverviewScreen() {
  const cluster = useQuery(clusterQuery);
  const hosts = useQuery(watchedHostsQuery);
  const [pointed, setPointed] = useState<Job | null>(null);
  // Fetched after the data that is seen first.
  const names = useQuery({ ...runningNamesQuery, enabled: hosts.data !== undefined });
  const whyNotSubmit = useWhyNot("submit");
  const never = cluster.data && Object.values(cluster.data.jobs).every((count) => count === 0);
  return (
    <Screen
      title="Overview"
      actions={
        <GuardedButton whyNot={whyNotSubmit} to="/submit" leftSection={<Icon name="plus" />}>
          Submit a job
        </GuardedButton>
      }
    >
      <LoadedAll<[Cluster, Host[]]> queries={[cluster, hosts]} title="The cluster can't be read">
        {(found, there) => (
          <div className={classes.stack}>
            <Figures cluster={found} hosts={there} />
            {never && <EmptyJobs />}
            <div className={classes.columns}>
              <div className={classes.stack}>
                <GpuMap hosts={there} names={names.data ?? NO_NAMES} pointed={pointed} />
                {!never && (
                  <Part what="panel" fallback={<Skeleton height={560} />}>
                    <PastCharts used={found.gpus_used} gpus={found.gpus} />
                  </Part>
                )}
              </div>
              <Queue waiting={groupCount("waiting", found.jobs)} onPoint={setPointed} />
            </div>
          </div>
        )}
      </LoadedAll>
    </Screen>
  );
}
