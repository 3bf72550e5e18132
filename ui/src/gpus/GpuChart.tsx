import { useMemo } from "react";
import type { Telemetry } from "../api/types";
import { Chart } from "../chart/Chart";
import { usePolicyMarkers } from "../chart/usePolicyMarkers";
import { linesOf, METRICS, type Metric } from "./telemetry";

interface Props {
  title: string;
  /** null: it is being read. */
  telemetry: Telemetry | null;
  metric: Metric;
  /** Whose GPUs, for those who can't see it. */
  of: string;
  /** What to do where nothing was measured. */
  empty: string;
  height?: number;
  /** While it is being read: whether it will have several lines, so that there is room for their names. */
  several?: boolean;
  /** It stands within another panel. */
  bare?: boolean;
}

/** One metric of GPUs over time, with each change of the policy. */
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
