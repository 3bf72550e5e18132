import { Group, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { hostTelemetryQuery } from "../api/queries";
import { GpuChart } from "../gpus/GpuChart";
import { METRICS, type Metric } from "../gpus/telemetry";
import { Loaded } from "../shell/Loaded";
import { useSetAddress } from "../shell/useAddress";
import classes from "./HostCard.module.css";

const SPANS = { "10 min": 600, "1 h": 3_600, "24 h": 86_400, "7 d": 7 * 86_400 };

/** What the GPUs of a host did; what is chosen stands in the address. */
export default function HostHistory({ host }: { host: string }) {
  const [address] = useSearchParams();
  const choose = useSetAddress();
  const metric = chosen(METRICS, address.get("metric"), "utilization") as Metric;
  const span = chosen(SPANS, address.get("back"), "10 min") as keyof typeof SPANS;
  const found = useQuery(hostTelemetryQuery(host, SPANS[span]));
  return (
    <div className={classes.history}>
      <Group justify="space-between" gap={8} mb={8}>
        <SegmentedControl
          size="xs"
          aria-label="What to draw"
          data={Object.entries(METRICS).map(([value, { title }]) => ({ value, label: title }))}
          value={metric}
          onChange={(value) => choose("metric", value)}
        />
        <SegmentedControl
          size="xs"
          aria-label="How far back"
          data={Object.keys(SPANS)}
          value={span}
          onChange={(value) => choose("back", value)}
        />
      </Group>
      <Loaded query={found} title="The past of these GPUs can't be read">
        {(data) => (
          <GpuChart
            bare
            title={METRICS[metric].title}
            telemetry={data}
            metric={metric}
            of={host}
            empty="Nothing was measured in this time. Choose more of it; the GPUs of a host are watched while it is reachable, and what they do is kept for keep_telemetry days."
          />
        )}
      </Loaded>
    </div>
  );
}

function chosen(known: object, given: string | null, usual: string): string {
  return given !== null && Object.hasOwn(known, given) ? given : usual;
}
