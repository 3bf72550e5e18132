import { useQuery } from "@tanstack/react-query";
import { jobTelemetryQuery } from "../../api/queries";
import type { JobDetail, Resources } from "../../api/types";
import { GpuChart } from "../../gpus/GpuChart";
import { METRICS } from "../../gpus/telemetry";
import { isOver } from "../../jobs/states";
import { ResourceChart } from "../../resources/ResourceChart";
import { cores, memoryNote, METRICS as RESOURCES } from "../../resources/series";
import { ReadError } from "../../shell/Loaded";
import classes from "./Training.module.css";

/** Charts of the job's GPUs and its containers' resources. The GPU charts cover the time when it held them. */
export function JobResources({ job }: { job: JobDetail }) {
  const over = isOver(job.state);
  const began = job.started_at !== null;
  const telemetry = useQuery({ ...jobTelemetryQuery(job.id, !over), enabled: began });
  if (!began) return null; // the job has held no GPU, and the panel above says so
  const { data, error } = telemetry;
  if (error && !data) return <ReadError queries={[telemetry]} title="Its resource usage can't be read" />;
  const empty = over
    ? "No measurements: the job was too short, or they were deleted (keep_telemetry)."
    : "No measurements yet. The first ones come some seconds after the start.";
  const taken = data?.resources ?? null;
  return (
    <div className={classes.grid}>
      {(["utilization", "memory_bytes"] as const).map((metric) => (
        <GpuChart
          key={metric}
          title={`GPU ${METRICS[metric].title.toLowerCase()}`}
          telemetry={data ?? null}
          metric={metric}
          of={job.name}
          empty={empty}
          several={new Set(job.tasks.flatMap((task) => task.gpu_uuids)).size > 1}
        />
      ))}
      {(["cpus", "memory_bytes", "network", "disk"] as const).map((metric) => (
        <ResourceChart
          key={metric}
          title={RESOURCES[metric].title}
          resources={taken}
          metric={metric}
          of={job.name}
          empty={metric === "network" ? `${empty} Local processes have no network measurements.` : empty}
          note={NOTES[metric]?.(taken)}
          several={job.tasks.length > 1}
        />
      ))}
    </div>
  );
}

/** Notes below charts. Their space is reserved while loading, so that nothing moves. */
const NOTES: Partial<Record<keyof typeof RESOURCES, (taken: Resources | null) => string>> = {
  cpus: (taken) => {
    const limit = taken?.series.find((each) => each.cpus_limit !== null)?.cpus_limit;
    return limit == null ? "\u00a0" : `Limit of a container: ${cores(limit)}.`;
  },
  memory_bytes: (taken) => (taken && memoryNote(taken.series)) || "\u00a0",
};
