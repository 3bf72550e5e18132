import { useMemo } from "react";
import type { Capacity, Usage } from "../../api/types";
import { Chart } from "../../chart/Chart";
import { ChartGroup } from "../../chart/group";
import { When } from "../../format/Elapsed";
import { amount } from "../../format/number";
import { type Bins, CAPACITY, capacityOf, partsOf, shareOf } from "./bars";
import classes from "./UsageScreen.module.css";

interface Props {
  /** Grouped by day and `part`. */
  rows: Usage[];
  part: "user" | "label";
  capacity: Capacity;
  bins: Bins;
}

/** Usage charts by day or week. They show the usage per user or label, and the held and idle GPU-hours. */
export function UsageCharts({ rows, part, capacity, bins }: Props) {
  const parts = useMemo(() => partsOf(rows, part, bins), [rows, part, bins]);
  const used = useMemo(() => capacityOf(capacity.days, bins), [capacity, bins]);
  const { share } = shareOf(capacity.days);
  const [most] = parts.series;
  const xName = bins.each === "day" ? "Day" : "Week";
  return (
    <ChartGroup>
      <div className={classes.charts}>
        <Chart
          title={`GPU-hours by ${part}`}
          label={`GPU-hours by ${part}, one bar per ${bins.each}${most ? `; most by ${most.name}` : ""}`}
          bins={bins.bins}
          xName={xName}
          series={parts.series}
          data={parts.data}
          height={240}
          format={amount}
        />
        <Chart
          title="GPU-hours held and idle"
          label={`GPU-hours that jobs held and that were idle, one bar per ${bins.each}; ${share === null ? "unknown yet" : `${Math.round(share * 100)}% were held`}`}
          bins={bins.bins}
          xName={xName}
          series={CAPACITY}
          data={capacity.known_since === null ? NOTHING : used}
          height={240}
          format={amount}
          empty="The number of GPUs is recorded from now on, once a minute."
          note={
            capacity.known_since !== null && (
              <>
                Counted since <When at={capacity.known_since} />: healthy GPUs of hosts that were neither lost
                nor parked.
              </>
            )
          }
        />
      </div>
    </ChartGroup>
  );
}

const NOTHING = [[]] as const;
