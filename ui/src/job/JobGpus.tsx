import { useQuery } from "@tanstack/react-query";
import { jobTelemetryQuery } from "../api/queries";
import type { JobDetail } from "../api/types";
import { GpuChart } from "../gpus/GpuChart";
import { METRICS } from "../gpus/telemetry";
import { isOver } from "../jobs/states";
import { ReadError } from "../shell/Loaded";
import classes from "./Training.module.css";

/** What its GPUs did while it held them. */
export function JobGpus({ job }: { job: JobDetail }) {
  const over = isOver(job.state);
  const began = job.started_at !== null;
  const telemetry = useQuery({ ...jobTelemetryQuery(job.id, !over), enabled: began });
  if (!began) return null; // it has held none, and the panel above says so
  if (telemetry.error && !telemetry.data)
    return <ReadError queries={[telemetry]} title="What its GPUs did can't be read" />;
  const empty = over
    ? "Nothing was measured while it held them: it was too short, or its minutes are kept no longer (keep_telemetry)."
    : "Nothing was measured yet. The first points come some seconds after it has begun to run.";
  return (
    <div className={classes.grid}>
      {(["utilization", "memory_bytes"] as const).map((metric) => (
        <GpuChart
          key={metric}
          title={`GPU ${METRICS[metric].title.toLowerCase()}`}
          telemetry={telemetry.data ?? null}
          metric={metric}
          of={job.name}
          empty={empty}
          several={new Set(job.tasks.flatMap((task) => task.gpu_uuids)).size > 1}
        />
      ))}
    </div>
  );
}
