import { useMemo } from "react";
import type { Telemetry } from "../api/types";
import { Chart } from "../chart/Chart";
import { usePolicyMarkers } from "../chart/usePolicyMarkers";
import { linesOf, METRICS, type Metric } from "./telemetry";

interface Props {
  title: string;
  /** null while loading. */
  telemetry: Telemetry | null;
  metric: Metric;
  /** Owner of the GPUs, for screen readers. */
  of: string;
  /** Advice if nothing was measured. */
  empty: string;
  height?: number;
  /** Whether several lines are expected while loading. It reserves space for their names. */
  several?: boolean;
  /** The chart is inside another panel. */
  bare?: boolean;
}

/** Chart of one GPU metric over time, with policy changes marked. */
export function GpuChart({
  title,
  telemetry,
  metric,
  of,
  empty,
  height = 180,
  several = false,
  bare = false,
}: Props) {
  const markers = usePolicyMarkers();
  const lines = useMemo(() => telemetry && linesOf(telemetry, metric), [telemetry, metric]);
  const series = useMemo(
    () => (lines?.names ?? (several ? ["GPU", "GPUs"] : ["GPU"])).map((name) => ({ name })),
    [lines, several],
  );
  const { title: what, format } = METRICS[metric];
  return (
    <Chart
      title={title}
      label={`${what} of the GPUs of ${of} over time`}
      time
      data={lines?.data ?? null}
      series={series}
      markers={markers}
      height={height}
      fromZero={metric !== "temperature"}
      format={format}
      empty={empty}
      bare={bare}
    />
  );
}
