import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo } from "react";
import { recentTimelineQuery } from "../api/queries";
import { Chart, ChartRoom } from "../chart/Chart";
import { usePolicyMarkers } from "../chart/usePolicyMarkers";
import { ErrorNotice } from "../shell/ErrorNotice";
import { busyOverTime } from "../timeline/busy";
import classes from "./OverviewScreen.module.css";

const BINS = 240;

const HEIGHT_PX = 190;

interface Props {
  /** How many are in use now: the figure above says so too, and the two agree. */
  used: number;
  /** How many there are. */
  gpus: number;
  /** How far back. */
  seconds: number;
  span: string;
  action: ReactNode;
}

/** GPUs in use over time, with each change of the policy. */
export function BusyChart({ used, gpus, seconds, span, action }: Props) {
  const { data, error, refetch } = useQuery(recentTimelineQuery(seconds));
  const markers = usePolicyMarkers();
  const chart = useMemo(() => {
    if (!data) return null;
    const [x, held] = busyOverTime(data.spans, Date.parse(data.since), Date.parse(data.until), BINS);
    x.push(Date.parse(data.until) / 1000);
    held.push(used);
    return [x, held, x.map(() => gpus)] as [number[], number[], number[]];
  }, [data, used, gpus]);
  return (
    <section className={`card ${classes.panel}`} aria-label="GPUs in use over time">
      <div className={classes.head}>
        <h2 className="section-title">GPUs in use over time</h2>
        {action}
      </div>
      {error && <ErrorNotice title="The past can't be read" error={error} retry={refetch} />}
      {chart && (
        <Chart
          label={`GPUs in use over the last ${span}, now ${used} of ${gpus}`}
          time
          data={chart}
          series={[
            { name: "in use", stepped: true, filled: true },
            { name: "there are", dashed: true },
          ]}
          markers={markers}
          height={HEIGHT_PX}
          whole
        />
      )}
      {!chart && !error && <ChartRoom height={HEIGHT_PX} />}
      {data && !data.complete && <p className={classes.note}>Only the newest attempts are counted.</p>}
    </section>
  );
}
