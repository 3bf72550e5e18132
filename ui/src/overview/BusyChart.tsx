import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { policyHistoryQuery, timelineQuery } from "../api/queries";
import { Chart } from "../chart/Chart";
import { ErrorNotice } from "../shell/ErrorNotice";
import { busyOverTime } from "../timeline/busy";
import classes from "./OverviewScreen.module.css";

const SPANS = { "1 h": 3_600_000, "24 h": 86_400_000, "7 d": 7 * 86_400_000 };
const BINS = 240;

/** GPUs in use over time, with each change of the policy. */
export function BusyChart({ gpus }: { gpus: number }) {
  const [span, setSpan] = useState<keyof typeof SPANS>("24 h");
  // Fixed while the screen is open, or the query's key would change with the clock; the answer reaches up to now.
  const [opened] = useState(() => Math.floor(Date.now() / 60_000) * 60_000);
  const since = opened - SPANS[span];
  const { data, error, refetch } = useQuery(timelineQuery(since, null));
  const { data: choices } = useQuery(policyHistoryQuery);
  const chart = useMemo(() => {
    if (!data) return null;
    const [x, held] = busyOverTime(data.spans, Date.parse(data.since), Date.parse(data.until), BINS);
    return [x, held, x.map(() => gpus)] as [number[], number[], number[]];
  }, [data, gpus]);
  const markers = useMemo(
    () => (choices ?? []).map(({ at, algorithm }) => ({ x: Date.parse(at) / 1000, text: algorithm })),
    [choices],
  );
  return (
    <section className={`card ${classes.panel}`} aria-label="GPUs in use over time">
      <div className={classes.head}>
        <h2 className="section-title">GPUs in use over time</h2>
        <SegmentedControl
          size="xs"
          aria-label="How far back"
          data={Object.keys(SPANS)}
          value={span}
          onChange={(value) => setSpan(value as keyof typeof SPANS)}
        />
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
