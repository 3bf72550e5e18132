import { type ReactNode, useMemo } from "react";
import type { Resources } from "../api/types";
import { Chart } from "../chart/Chart";
import { usePolicyMarkers } from "../chart/usePolicyMarkers";
import { METRICS, type ResourceMetric, resourceLines } from "./series";

interface Props {
  title: string;
  /** null while loading. */
  resources: Resources | null;
  metric: ResourceMetric;
  /** Owner of the resources, for screen readers. */
  of: string;
  empty: string;
  note?: ReactNode;
  /** Whether several lines are expected while loading. */
  several?: boolean;
  bare?: boolean;
}

/** Chart of one resource of containers or a host over time. */
export function ResourceChart({
  title,
  resources,
  metric,
  of,
  empty,
  note,
  several = false,
  bare = false,
}: Props) {
  const markers = usePolicyMarkers();
  const lines = useMemo(() => resources && resourceLines(resources, metric), [resources, metric]);
  const { title: what, names } = METRICS[metric];
  const series = useMemo(
    () =>
      (lines?.names ?? (several || names.length > 1 ? ["one", "other"] : ["one"])).map((name) => ({ name })),
    [lines, several, names],
  );
  return (
    <Chart
      title={title}
      label={`${what} of ${of} over time`}
      time
      data={lines?.data ?? null}
      series={series}
      markers={markers}
      height={180}
      {...(lines && { format: lines.format })}
      note={note}
      empty={empty}
      bare={bare}
    />
  );
}
