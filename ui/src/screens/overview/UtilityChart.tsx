import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "react-router";
import { policyQuery } from "../../api/policyQueries";
import { utilityQuery } from "../../api/queries";
import { Chart } from "../../chart/Chart";
import { columnsWithGaps } from "../../chart/gaps";
import { usePolicyMarkers } from "../../chart/usePolicyMarkers";
import { ReadError } from "../../shell/Loaded";

const SERIES = [
  { name: "utility" },
  { name: "fewer hosts below", dashed: true },
  { name: "more above", dashed: true },
];

/** Chart of the cluster's utility, as the policy rates it. It shows the thresholds at which the policy wants fewer
 * or more hosts. */
export function UtilityChart({ seconds, span }: { seconds: number; span: string }) {
  const past = useQuery(utilityQuery(seconds));
  const { data } = past;
  const { data: policy } = useQuery(policyQuery);
  const markers = usePolicyMarkers();
  const chart = useMemo(() => data && columnsWithGaps(data.points, 2.5 * data.step_s, SERIES.length), [data]);
  return (
    <>
      <ReadError queries={[past]} title="The utility can't be read" />
      <Chart
        title="Utility over time"
        label={`The cluster's utility over the last ${span}, now ${chart?.[1]?.at(-1)?.toFixed(2)}`}
        time
        data={chart ?? null}
        series={SERIES}
        markers={markers}
        height={170}
        format={(value) => value.toFixed(2)}
        note={chart?.[0].length !== 0 && "Sum of the speedups of all jobs, divided by the GPUs."}
        empty={
          policy && policy.algorithm !== "goodput" ? (
            <>
              Under {policy.algorithm} there is no utility: only goodput predicts the gain of another GPU.{" "}
              <Link to="/policy">Choose another policy</Link>
            </>
          ) : (
            "No data in this time yet: one point is stored per minute."
          )
        }
      />
    </>
  );
}
