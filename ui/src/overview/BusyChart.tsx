import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo } from "react";
import { recentTimelineQuery } from "../api/queries";
import { Chart } from "../chart/Chart";
import { usePolicyMarkers } from "../chart/usePolicyMarkers";
import { ErrorNotice } from "../shell/ErrorNotice";
import { busyOverTime } from "../timeline/busy";
import classes from "./OverviewScreen.module.css";

const BINS = 240;

interface Props {
  /** How many there are. */
  gpus: number;
  /** How far back. */
  seconds: number;
  span: string;
  action: ReactNode;
}

/** GPUs in use over time, with each change of the policy. */
export function BusyChart({ gpus, seconds, span, action }: Props) {
  const { data, error, refetch } = useQuery(recentTimelineQuery(seconds));
  const markers = usePolicyMarkers();
  const chart = useMemo(() => {
    if (!data) return null;
    const [x, held] = busyOverTime(data.spans, Date.parse(data.since), Date.parse(data.until), BINS);
    return [x, held, x.map(() => gpus)] as [number[], number[], number[]];
  }, [data, gpus]);
  return (
    <section className={`card ${classes.panel}`} aria-label="GPUs in use over time">
      <div className={classes.head}>
        <h2 className="section-title">GPUs in use over time</h2>
        {action}
      </div>
      {error && <ErrorNotice title="The past can't be read" error={error} retry={refetch} />}
      {chart && (
        <Chart
          label={`GPUs in use over the last ${span}, now ${Math.round(chart[1].at(-1) ?? 0)} of ${gpus}`}
          time
          data={chart}
          series={[
            { name: "in use", stepped: true, filled: true },
            { name: "there are", dashed: true },
          ]}
          markers={markers}
          height={190}
          whole
        />
      )}
      {data && !data.complete && <p className={classes.note}>Only the newest attempts are counted.</p>}
    </section>
  );
}
