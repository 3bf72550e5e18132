import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { ChartGroup } from "../../chart/group";
import { BusyChart } from "./BusyChart";
import { UtilityChart } from "./UtilityChart";

const SPANS = { "1 h": 3_600, "24 h": 86_400, "7 d": 7 * 86_400 };

/** Charts of past cluster usage, with one choice of time for both. */
export default function PastCharts({ used, gpus }: { used: number; gpus: number }) {
  const [span, setSpan] = useState<keyof typeof SPANS>("24 h");
  const choice = (
    <SegmentedControl
      size="xs"
      aria-label="Time range"
      data={Object.keys(SPANS)}
      value={span}
      onChange={(value) => setSpan(value as keyof typeof SPANS)}
    />
  );
  return (
    <ChartGroup>
      <BusyChart used={used} gpus={gpus} seconds={SPANS[span]} span={span} action={choice} />
      <UtilityChart seconds={SPANS[span]} span={span} />
    </ChartGroup>
  );
}
