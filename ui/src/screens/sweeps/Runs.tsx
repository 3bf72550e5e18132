import { Group, NativeSelect, Switch, Text } from "@mantine/core";
import { Link, useSearchParams } from "react-router";
import type { Run, SweepDetail } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { useSetAddress } from "../../shell/useAddress";
import { bestFirst, shownValue } from "../../sweeps/runs";
import { SweepBadge } from "../../sweeps/SweepBadge";
import { Coordinates } from "./Coordinates";

const GOALS = { "": "by the sweep", min: "lower is better", max: "higher is better" };

type Goal = keyof typeof GOALS;

/** Return the chosen goal; empty: the sweep's own. */
export const goalOf = (address: URLSearchParams): Goal =>
  (["min", "max"] as const).find((each) => each === address.get("goal")) ?? "";

/** Table of the runs' results by a logged metric. */
export function Runs({ sweep }: { sweep: SweepDetail }) {
  const set = useSetAddress();
  const [address] = useSearchParams();
  const sorted = address.get("order") === "best";
  const names = [...new Set([sweep.metric.name, ...sweep.logged])];
  const runs = sorted ? bestFirst(sweep.table, sweep.metric.goal) : sweep.table;
  return (
    <>
      <Group mb="md" gap="sm" align="flex-end">
        <NativeSelect
          label="Metric"
          data={names}
          value={sweep.metric.name}
          onChange={(event) => set("metric", event.currentTarget.value)}
        />
        <NativeSelect
          label="Goal"
          data={Object.entries(GOALS).map(([value, label]) => ({ value, label }))}
          value={goalOf(address)}
          onChange={(event) => set("goal", event.currentTarget.value)}
        />
        <Switch
          label="Best first"
          mb={8}
          checked={sorted}
          onChange={(event) => set("order", event.currentTarget.checked ? "best" : "")}
        />
      </Group>
      <Coordinates sweep={sweep} />
      <RunsTable sweep={sweep} runs={runs} />
      {sweep.next !== null && (
        <Text size="sm" c="dimmed" mt="sm">
          The first {sweep.table.length} of {sweep.runs} runs. The API and the command line list all.
        </Text>
      )}
    </>
  );
}

function RunsTable({ sweep, runs }: { sweep: SweepDetail; runs: Run[] }) {
  const { name } = sweep.metric;
  const columns = ["run", ...sweep.parameters, "state", `last ${name}`, `best ${name}`];
  return (
    <DataTable label="Runs" columns={columns}>
      {runs.map((run) => (
        <tr key={run.number} data-best={run.number === sweep.best?.number}>
          <td>{run.job ? <Link to={`/jobs/${run.job}`}>{run.number}</Link> : run.number}</td>
          {sweep.parameters.map((name) => (
            <td key={name}>{String(run.params[name] ?? "")}</td>
          ))}
          <td>
            <SweepBadge state={run.state} />
          </td>
          <td>{shownValue(run.last)}</td>
          <td>
            {run.number === sweep.best?.number ? (
              <strong>{shownValue(run.best)} (best)</strong>
            ) : (
              shownValue(run.best)
            )}
          </td>
        </tr>
      ))}
    </DataTable>
  );
}
