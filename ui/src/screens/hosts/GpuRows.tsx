import { VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { hostTelemetryQuery } from "../../api/queries";
import type { Gpu, Host } from "../../api/types";
import { clock } from "../../format/clock";
import { jobColor } from "../../format/color";
import { size } from "../../format/size";
import { closedBy, lookOf } from "../../gpus/gpuLook";
import { placeOf } from "../../gpus/placeOf";
import { Sparkline } from "../../gpus/Sparkline";
import { binned, type Metric } from "../../gpus/telemetry";
import { GpuMenu } from "./GpuMenu";
import classes from "./GpuRows.module.css";

const [SECONDS, BINS] = [600, 60];
const [COOL, HOT] = [20, 95];

interface Props {
  host: Host;
  names: Record<string, string>;
  dark: boolean;
  /** Whether the host is in view. Its telemetry is fetched only then. */
  seen: boolean;
}

/** Table of GPUs with their job, load, memory, temperature and power. Each value is shown with its limit, now and
 * over the last ten minutes. The temperature limit is the one from which the GPU lowers its clocks. */
export function GpuRows({ host, names, dark, seen }: Props) {
  const { data } = useQuery({ ...hostTelemetryQuery(host.id, SECONDS), enabled: seen && host.reachable });
  const until = clock.now() / 1000;
  const most = Math.max(1, ...host.gpus.map((gpu) => gpu.reading?.power_w ?? 0));
  const values = (gpu: Gpu, metric: Metric) =>
    data ? binned(data, gpu.index, metric, until, SECONDS, BINS) : [];
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard.
    <section className={classes.frame} tabIndex={0} aria-label={`GPUs of ${host.id}`}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">GPU</th>
            <th scope="col">Job</th>
            <th scope="col">Load</th>
            <th scope="col">Memory</th>
            <th scope="col">Temperature</th>
            <th scope="col">Power</th>
            <th>
              <VisuallyHidden>Actions</VisuallyHidden>
            </th>
          </tr>
        </thead>
        <tbody>
          {host.gpus.map((gpu) => {
            const { kind, text } = lookOf({ ...gpu, utilization: null, reading: null }, host, names);
            const { memory_bytes = null, temperature = null, power_w = null } = gpu.reading ?? {};
            const { slowdown_temperature: hot = null, power_limit_w: limit = null } = gpu.reading ?? {};
            const [job] = gpu.jobs;
            const total = gpu.memory_bytes > 0 ? ` of ${size(gpu.memory_bytes)}` : "";
            return (
              <tr key={gpu.uuid} data-kind={kind} title={gpu.uuid}>
                <th scope="row">
                  <span
                    className={classes.mark}
                    style={{ background: job ? jobColor(job, dark) : "transparent" }}
                    aria-hidden
                  />
                  {gpu.index} <span className={classes.dim}>{gpu.type}</span>
                  {placeOf(gpu) && <span className={classes.dim}>{placeOf(gpu)}</span>}
                </th>
                <td className={classes.job}>
                  {gpu.jobs.map((id) => (
                    <Link key={id} to={`/jobs/${id}`}>
                      {names[id] ?? id}
                    </Link>
                  ))}
                  {kind === "job" && gpu.cordoned && <span className={classes.said}>{closedBy(gpu)}</span>}
                  {kind !== "job" && <span className={classes.said}>{text.replace(/^GPU \d+: /, "")}</span>}
                  {gpu.warnings.map((warning) => (
                    <span key={warning} className={classes.said}>
                      {warning}
                    </span>
                  ))}
                </td>
                <Measured
                  told={gpu.utilization === null ? null : `${Math.round(gpu.utilization)}%`}
                  values={values(gpu, "utilization")}
                  low={0}
                  high={100}
                />
                <Measured
                  told={memory_bytes === null ? null : size(memory_bytes) + total}
                  values={values(gpu, "memory_bytes")}
                  low={0}
                  high={gpu.memory_bytes || (memory_bytes ?? 1)}
                />
                <Measured
                  told={temperature === null ? null : withLimit(temperature, hot, "°C")}
                  values={values(gpu, "temperature")}
                  low={COOL}
                  high={hot ?? HOT}
                />
                <Measured
                  told={power_w === null ? null : withLimit(power_w, limit, "W")}
                  values={values(gpu, "power_w")}
                  low={0}
                  high={limit ?? most}
                />
                <td className={classes.menu}>
                  <GpuMenu gpu={gpu} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

/** Format a reading with its limit: "269 of 700 W". */
const withLimit = (value: number, limit: number | null, unit: string) =>
  `${Math.round(value)}${limit === null ? "" : ` of ${Math.round(limit)}`} ${unit}`;

interface MeasuredProps {
  told: string | null;
  values: (number | null)[];
  low: number;
  high: number;
}

function Measured({ told, ...drawn }: MeasuredProps) {
  return (
    <td>
      <span className={classes.measured}>
        <Sparkline {...drawn} />
        {told ?? "–"}
      </span>
    </td>
  );
}
