import { useQuery } from "@tanstack/react-query";
import { hostTelemetryQuery } from "../../api/queries";
import type { Host } from "../../api/types";
import { clock } from "../../format/clock";
import { size } from "../../format/size";
import { Sparkline } from "../../gpus/Sparkline";
import { binnedPoints } from "../../gpus/telemetry";
import classes from "./HostResources.module.css";

const [SECONDS, BINS] = [600, 60];

/** Processors, memory and disk of a host. Each value is shown with its limit, now and over the last ten minutes. */
export function HostResources({ host, seen }: { host: Host; seen: boolean }) {
  const { data } = useQuery({ ...hostTelemetryQuery(host.id, SECONDS), enabled: seen && host.reachable });
  const until = clock.now() / 1000;
  const told = data?.resources;
  const values = (metric: string) =>
    told
      ? binnedPoints(told.series[0]?.points ?? [], told.metrics.indexOf(metric) + 1, until, SECONDS, BINS)
      : [];
  const now = host.resources;
  return (
    <dl className={classes.list} aria-label={`Load of ${host.id}`}>
      <Measured
        name="CPU"
        metric="cpus"
        told={now?.cpus == null ? null : `${now.cpus.toFixed(1)} of ${now.cpus_total}`}
        share={0} // busy processors are no problem
        values={values("cpus")}
        high={now?.cpus_total ?? 1}
      />
      <Measured
        name="Memory"
        metric="memory"
        told={now && `${size(now.memory_bytes)} of ${size(now.memory_total)}`}
        share={now ? now.memory_bytes / now.memory_total : 0}
        values={values("memory_bytes")}
        high={now?.memory_total ?? 1}
      />
      <Measured
        name="Disk"
        metric="disk"
        told={now && `${size(now.disk_bytes)} of ${size(now.disk_total)}`}
        share={now ? now.disk_bytes / now.disk_total : 0}
        values={values("disk_bytes")}
        high={now?.disk_total ?? 1}
      />
    </dl>
  );
}

interface MeasuredProps {
  name: string;
  metric: string;
  told: string | null;
  /** Used share of the total. */
  share: number;
  values: (number | null)[];
  high: number;
}

const FULL = 0.9;

function Measured({ name, metric, told, share, values, high }: MeasuredProps) {
  return (
    <div className={classes.measured}>
      <dt>{name}</dt>
      <dd data-metric={metric} data-full={share >= FULL || undefined}>
        <Sparkline values={values} low={0} high={high} />
        {told ?? "–"}
      </dd>
    </div>
  );
}
