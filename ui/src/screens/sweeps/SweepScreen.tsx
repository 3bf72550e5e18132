import { Button, Group, NativeSelect, Switch, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { keys } from "../../api/keys";
import type { Run, SweepDetail } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Confirm } from "../../shell/Confirm";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { useSetAddress } from "../../shell/useAddress";
import { cancelSweep, retrySweep, sweepQuery } from "../../sweeps/queries";
import { bestFirst, shownCounts, shownValue } from "../../sweeps/runs";
import { SweepBadge } from "../../sweeps/SweepBadge";
import { Coordinates } from "./Coordinates";

const GOALS = { "": "as the sweep says", min: "less is better", max: "more is better" };

export default function SweepScreen() {
  const { id = "" } = useParams();
  const [address] = useSearchParams();
  const metric = address.get("metric") ?? "";
  const goal = (["min", "max"] as const).find((each) => each === address.get("goal")) ?? "";
  const sweep = useQuery(sweepQuery(id, metric, goal));
  const { data } = sweep;
  return (
    <Screen title={data?.name ?? "Sweep"} actions={data && <Actions sweep={data} />}>
      <Loaded query={sweep} title="The sweep can't be read">
        {(found) => <Results sweep={found} goal={goal} sorted={address.get("order") === "best"} />}
      </Loaded>
    </Screen>
  );
}

interface ResultsProps {
  sweep: SweepDetail;
  /** As it was chosen; empty: as the sweep says. */
  goal: keyof typeof GOALS;
  /** The best run first. */
  sorted: boolean;
}

/** What became of its runs, and of what they were to find out. */
function Results({ sweep, goal, sorted }: ResultsProps) {
  const set = useSetAddress();
  const names = [...new Set([sweep.metric.name, ...sweep.logged])];
  const runs = sorted ? bestFirst(sweep.table, sweep.metric.goal) : sweep.table;
  return (
    <>
      <Group gap="sm" mb="xs">
        <SweepBadge state={sweep.state} />
        <Text size="sm">{sweep.message}</Text>
      </Group>
      <Text size="sm" c="dimmed" mb="md">
        {shownCounts(sweep)}
        {sweep.best &&
          `. Best: run ${sweep.best.number}, ${sweep.metric.name} ${shownValue(sweep.best.best)}`}
      </Text>
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
          value={goal}
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
          The first {sweep.table.length} of {sweep.runs} runs. The API and the command line have all.
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

function Actions({ sweep }: { sweep: SweepDetail }) {
  const [asked, setAsked] = useState(false);
  const queries = useQueryClient();
  const onSettled = () => queries.invalidateQueries({ queryKey: [keys.sweeps] });
  const cancel = useMutation({
    mutationFn: cancelSweep,
    onSettled: () => {
      setAsked(false);
      return onSettled();
    },
  });
  const retry = useMutation({ mutationFn: retrySweep, onSettled });
  const going = sweep.state === "running" || sweep.state === "stopping";
  const unsuccessful = sweep.runs - sweep.counts.succeeded - sweep.counts.active;
  const failure = cancel.error ?? retry.error;
  return (
    <>
      {failure && (
        <Text size="sm" c="red" role="alert">
          {failure.message}
        </Text>
      )}
      {going ? (
        <Button
          variant="default"
          leftSection={<Icon name="cancel" />}
          disabled={sweep.reason === "cancelled"}
          onClick={() => setAsked(true)}
        >
          Cancel
        </Button>
      ) : (
        <Button
          variant="default"
          leftSection={<Icon name="repeat" />}
          disabled={unsuccessful === 0}
          loading={retry.isPending}
          onClick={() => retry.mutate(sweep.id)}
        >
          Retry {unsuccessful > 0 && unsuccessful}
        </Button>
      )}
      {asked && (
        <Confirm
          title={`Cancel ${sweep.name}?`}
          action="Cancel the sweep"
          pending={cancel.isPending}
          onConfirm={() => cancel.mutate(sweep.id)}
          onClose={() => setAsked(false)}
        >
          No further run starts. {sweep.counts.active} of its jobs wait or run: those are cancelled.
        </Confirm>
      )}
    </>
  );
}
