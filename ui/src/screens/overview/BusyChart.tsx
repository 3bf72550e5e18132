import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo } from "react";
import { recentTimelineQuery } from "../../api/queries";
import { Chart } from "../../chart/Chart";
import { usePolicyMarkers } from "../../chart/usePolicyMarkers";
import { busyOverTime } from "../../gpus/busy";
import { ReadError } from "../../shell/Loaded";

const BINS = 240;

const SERIES = [
  { name: "in use", stepped: true, filled: true },
  { name: "total", dashed: true },
];

interface Props {
  /** GPUs in use now, the same number as in the figure above. */
  used: number;
  /** Number of GPUs. */
  gpus: number;
  /** Length of the time shown. */
  seconds: number;
  span: string;
  action: ReactNode;
}

/** Chart of the GPUs in use over time, with policy changes marked. */
export function BusyChart({ used, gpus, seconds, span, action }: Props) {
  const past = useQuery(recentTimelineQuery(seconds));
  const { data } = past;
  const markers = usePolicyMarkers();
  const chart = useMemo(() => {
    if (!data) return null;
    const [x, held] = busyOverTime(data.spans, Date.parse(data.since), Date.parse(data.until), BINS);
    x.push(Date.parse(data.until) / 1000);
    held.push(used);
    return [x, held, x.map(() => gpus)] as [number[], number[], number[]];
  }, [data, used, gpus]);
  return (
    <>
      <ReadError queries={[past]} title="The history can't be read" />
      <Chart
        title="GPUs in use over time"
        label={`GPUs in use over the last ${span}, now ${used} of ${gpus}`}
        time
        data={chart}
        series={SERIES}
        markers={markers}
        height={190}
        whole
        action={action}
        note={data && !data.complete && "Only the newest attempts are counted."}
      />
    </>
  );
}
