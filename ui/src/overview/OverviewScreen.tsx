import { Button, Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { clusterQuery, runningNamesQuery, watchedHostsQuery } from "../api/queries";
import type { Job } from "../api/types";
import { EmptyJobs } from "../jobs/EmptyJobs";
import { groupCount } from "../jobs/states";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Icon } from "../shell/Icon";
import { Loading } from "../shell/Loading";
import { Part } from "../shell/Part";
import { Screen } from "../shell/Screen";
import { parts } from "../shell/screens";
import { Figures } from "./Figures";
import { GpuMap } from "./GpuMap";
import classes from "./OverviewScreen.module.css";
import { Queue } from "./Queue";

const NO_NAMES = {};
const PastCharts = parts.pastCharts.Component;

export default function OverviewScreen() {
  const cluster = useQuery(clusterQuery);
  const hosts = useQuery(watchedHostsQuery);
  const [pointed, setPointed] = useState<Job | null>(null);
  // After what is seen first.
  const names = useQuery({ ...runningNamesQuery, enabled: hosts.data !== undefined });
  const error = cluster.error ?? hosts.error;
  const never = cluster.data && Object.values(cluster.data.jobs).every((count) => count === 0);
  return (
    <Screen
      title="Overview"
      actions={
        <Button component={Link} to="/submit" leftSection={<Icon name="plus" />}>
          Submit a job
        </Button>
      }
    >
      {error && (
        <ErrorNotice
          title="The cluster can't be read"
          error={error}
          retry={() => {
            cluster.refetch();
            hosts.refetch();
          }}
        />
      )}
      {!error && (!cluster.data || !hosts.data) && <Loading />}
      {cluster.data && hosts.data && (
        <div className={classes.stack}>
          <Figures cluster={cluster.data} hosts={hosts.data} />
          {never && <EmptyJobs />}
          <div className={classes.columns}>
            <div className={classes.stack}>
              <GpuMap hosts={hosts.data} names={names.data ?? NO_NAMES} pointed={pointed} />
              {!never && (
                <Part what="panel" fallback={<Skeleton height={560} />}>
                  <PastCharts used={cluster.data.gpus_used} gpus={cluster.data.gpus} />
                </Part>
              )}
            </div>
            <Queue waiting={groupCount("waiting", cluster.data.jobs)} onPoint={setPointed} />
          </div>
        </div>
      )}
    </Screen>
  );
}
