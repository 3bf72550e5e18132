import { Group, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { hostTelemetryQuery } from "../../api/queries";
import { GpuChart } from "../../gpus/GpuChart";
import { METRICS, type Metric } from "../../gpus/telemetry";
import { ResourceChart } from "../../resources/ResourceChart";
import type { ResourceMetric } from "../../resources/series";
import { Loaded } from "../../shell/Loaded";
import { useSetAddress } from "../../shell/useAddress";
import classes from "./HostCard.module.css";

const SPANS = { "10 min": 600, "1 h": 3_600, "24 h": 86_400, "7 d": 7 * 86_400 };

/** Metrics of the host itself, by their name in the address. */
const OF_HOST: Record<string, { title: string; metric: ResourceMetric }> = {
  host_cpus: { title: "Host CPU", metric: "cpus" },
  host_memory: { title: "Host memory", metric: "memory_bytes" },
  host_disk: { title: "Host disk", metric: "disk_bytes" },
};
const THROUGH_HOST: typeof OF_HOST = {
  host_network: { title: "Host network", metric: "network" },
  host_disk_rate: { title: "Host disk I/O", metric: "disk" },
};
const EMPTY =
  "No measurements in this time: choose a longer one. A host is measured while it is reachable; measurements are kept for keep_telemetry days.";

/** Charts of a host and its GPUs. The address stores the choice. */
export default function HostHistory({ host, gpus }: { host: string; gpus: boolean }) {
  const [address] = useSearchParams();
  const choose = useSetAddress();
  const ofHosts = { ...OF_HOST, ...THROUGH_HOST };
  const choices = gpus ? { ...METRICS, ...ofHosts } : ofHosts;
  const metric = chosen(choices, address.get("metric"), gpus ? "utilization" : "host_cpus");
  const ofHost = ofHosts[metric];
  const span = chosen(SPANS, address.get("back"), "10 min") as keyof typeof SPANS;
  const found = useQuery(hostTelemetryQuery(host, SPANS[span]));
  return (
    <div className={classes.history}>
      <Group justify="space-between" gap={8} mb={8}>
        <Group gap={8}>
          {gpus && <Choice label="Metric of the GPUs" of={METRICS} value={metric} />}
          <Choice label="Metric of the host" of={OF_HOST} value={metric} />
          <Choice label="Throughput of the host" of={THROUGH_HOST} value={metric} />
        </Group>
        <SegmentedControl
          size="xs"
          aria-label="Time range"
          data={Object.keys(SPANS)}
          value={span}
          onChange={(value) => choose("back", value)}
        />
      </Group>
      <Loaded query={found} title="The history of this host can't be read">
        {(data) =>
          ofHost ? (
            <ResourceChart
              bare
              title={ofHost.title}
              resources={data.resources}
              metric={ofHost.metric}
              of={host}
              empty={`${EMPTY} For an engine on another machine, a running probe is required.`}
            />
          ) : (
            <GpuChart
              bare
              title={METRICS[metric as Metric].title}
              telemetry={data}
              metric={metric as Metric}
              of={host}
              empty={EMPTY}
            />
          )
        }
      </Loaded>
    </div>
  );
}

/** Choice of a metric. Nothing is selected if `value` belongs to another choice. */
function Choice({
  label,
  of,
  value,
}: {
  label: string;
  of: Record<string, { title: string }>;
  value: string;
}) {
  const choose = useSetAddress();
  return (
    <SegmentedControl
      size="xs"
      aria-label={label}
      data={Object.entries(of).map(([name, { title }]) => ({ value: name, label: title }))}
      value={Object.hasOwn(of, value) ? value : ""}
      onChange={(name) => choose("metric", name)}
    />
  );
}

function chosen(known: object, given: string | null, usual: string): string {
  return given !== null && Object.hasOwn(known, given) ? given : usual;
}
