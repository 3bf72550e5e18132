import { Button, Group, NativeSelect, Switch, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { keys } from "../api/keys";
import type { Run, SweepDetail } from "../api/types";
import { Confirm } from "../shell/Confirm";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Icon } from "../shell/Icon";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import { useSetAddress } from "../shell/useAddress";
import classes from "../usage/UsageTable.module.css";
import { Coordinates } from "./Coordinates";
import { cancelSweep, retrySweep, sweepQuery } from "./queries";
import { bestFirst, shownCounts, shownValue } from "./runs";
import { SweepBadge } from "./SweepBadge";

const GOALS = { "": "as the sweep says", min: "less is better", max: "more is better" };

export default function SweepScreen() {
  const { id = "" } = useParams();
  const [address] = useSearchParams();
  const set = useSetAddress();
  const metric = address.get("metric") ?? "";
  const goal = (["min", "max"] as const).find((each) => each === address.get("goal")) ?? "";
  const sorted = address.get("order") === "best";
  const { data, error, refetch } = useQuery(sweepQuery(id, metric, goal));
  if (error) {
    return (
      <Screen title="Sweep">
        <ErrorNotice title="The sweep can't be read" error={error} retry={refetch} />
      </Screen>
    );
  }
  if (!data) return <Loading />;
  const names = [...new Set([data.metric.name, ...data.logged])];
  const runs = sorted ? bestFirst(data.table, data.metric.goal) : data.table;
  return (
    <Screen title={data.name} actions={<Actions sweep={data} />}>
      <Group gap="sm" mb="xs">
        <SweepBadge state={data.state} />
        <Text size="sm">{data.message}</Text>
      </Group>
      <Text size="sm" c="dimmed" mb="md">
        {shownCounts(data)}
        {data.best && `. Best: run ${data.best.number}, ${data.metric.name} ${shownValue(data.best.best)}`}
      </Text>
      <Group mb="md" gap="sm" align="flex-end">
        <NativeSelect
          label="Metric"
          data={names}
          value={data.metric.name}
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
      <Coordinates sweep={data} />
      <RunsTable sweep={data} runs={runs} />
      {data.next !== null && (
        <Text size="sm" c="dimmed" mt="sm">
          The first {data.table.length} of {data.runs} runs. The API and the command line have all.
        </Text>
      )}
    </Screen>
  );
}

function RunsTable({ sweep, runs }: { sweep: SweepDetail; runs: Run[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: whatever scrolls must be reachable by keyboard.
    <section className={`card ${classes.frame}`} tabIndex={0} aria-label="Runs">
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">run</th>
            {sweep.parameters.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
            <th scope="col">state</th>
            <th scope="col">last {sweep.metric.name}</th>
            <th scope="col">best {sweep.metric.name}</th>
          </tr>
        </thead>
        <tbody>
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
        </tbody>
      </table>
    </section>
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
