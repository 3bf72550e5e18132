import { useMemo } from "react";
import type { Telemetry } from "../api/types";
import { Chart } from "../chart/Chart";
import { usePolicyMarkers } from "../chart/usePolicyMarkers";
import { linesOf, METRICS, type Metric } from "./telemetry";

interface Props {
  telemetry: Telemetry;
  metric: Metric;
  /** Whose GPUs, for those who can't see it. */
  of: string;
  /** What to do where nothing was measured. */
  empty: string;
  height?: number;
}

/** One metric of GPUs over time, with each change of the policy. */
export function GpuChart({ telemetry, metric, of, empty, height = 180 }: Props) {
  const markers = usePolicyMarkers();
  const { names, data } = useMemo(() => linesOf(telemetry, metric), [telemetry, metric]);
  const { title, format } = METRICS[metric];
  const series = useMemo(() => names.map((name) => ({ name })), [names]);
  if (data[0].length === 0)
    return <p style={{ margin: 0, color: "var(--ink-dim)", fontSize: 14 }}>{empty}</p>;
  return (
    <Chart
      label={`${title} of the GPUs of ${of} over time`}
      time
      data={data}
      series={series}
      markers={markers}
      height={height}
      fromZero={metric !== "temperature"}
      format={format}
    />
  );
}
