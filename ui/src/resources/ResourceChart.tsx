import { type ReactNode, useMemo } from "react";
import type { Resources } from "../api/types";
import { Chart } from "../chart/Chart";
import { usePolicyMarkers } from "../chart/usePolicyMarkers";
import { METRICS, type ResourceMetric, resourceLines } from "./series";

interface Props {
  title: string;
  /** null: it is being read. */
  resources: Resources | null;
  metric: ResourceMetric;
  /** Whose, for those who can't see it. */
  of: string;
  empty: string;
  note?: ReactNode;
  /** While it is being read: whether it will have several lines. */
  several?: boolean;
  bare?: boolean;
}

/** One thing that containers or a host take, over time. */
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
