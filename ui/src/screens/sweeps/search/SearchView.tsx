import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Search, SweepDetail } from "../../../api/types";
import { DataTable } from "../../../components/DataTable";
import { Figure, FigureList } from "../../../components/Figures";
import { Panel } from "../../../components/Panel";
import panel from "../../../components/Panel.module.css";
import { GuardedButton } from "../../../may/GuardedButton";
import { useWhyNot } from "../../../may/useMay";
import { Icon } from "../../../shell/Icon";
import { Loaded } from "../../../shell/Loaded";
import { searchQuery } from "../../../sweeps/queries";
import { fourDigits } from "../../../sweeps/runs";
import { SweepBadge } from "../../../sweeps/SweepBadge";
import { CurvePlot } from "./CurvePlot";
import { foundJob, shownConfiguration, shownMarks, shownShare, type TrialRow, trialsOf } from "./trials";

const GOALS = { time: "minimum time", cost: "minimum cost", both: "minimum time and cost" };

/** Search for a configuration: its trials and result. */
export default function SearchView({ sweep }: { sweep: SweepDetail }) {
  const search = useQuery(searchQuery(sweep.id));
  return (
    <Loaded query={search} title="The search can't be read">
      {(found) => <Found search={found} trials={trialsOf(found, sweep.table)} />}
    </Loaded>
  );
}

function Found({ search, trials }: { search: Search; trials: TrialRow[] }) {
  return (
    <div className={panel.stack}>
      <Progress search={search} />
      <Answer search={search} />
      <Panel title="Time and cost">
        {trials.some((trial) => trial.run_time !== null) ? (
          <CurvePlot trials={trials} />
        ) : (
          <Text size="sm" c="dimmed">
            No trial has succeeded yet.
          </Text>
        )}
      </Panel>
      <TrialsTable trials={trials} />
    </div>
  );
}

function Progress({ search }: { search: Search }) {
  const { best, gain, tried } = search;
  return (
    <FigureList>
      <Figure name="Trials" note={`of ${search.configurations} configurations`}>
        {tried.length} of {search.trials}
      </Figure>
      <Figure name="Goal" words note={search.goal === "both" ? "their product" : "of a trial"}>
        {GOALS[search.goal]}
      </Figure>
      <Figure
        name={search.found ? "Best" : "Best so far"}
        words
        note={
          best
            ? `${fourDigits(best.run_time)} s, cost ${fourDigits(best.cost)}`
            : "no trial has succeeded yet"
        }
      >
        {best ? shownConfiguration(best) : "–"}
      </Figure>
      <Figure name="Next trial" note="expected gain, as a share of the best">
        {shownShare(gain) || "–"}
      </Figure>
    </FigureList>
  );
}

/** Result of the search and why it ended, or that it continues. */
function Answer({ search }: { search: Search }) {
  const { found } = search;
  const job = foundJob(search);
  const whyNot = useWhyNot("submit");
  return (
    <Panel
      title="Found"
      action={
        job && (
          <GuardedButton
            whyNot={whyNot}
            to={`/submit?from=${job}&as=found`}
            leftSection={<Icon name="plus" />}
            size="xs"
          >
            Submit a job with it
          </GuardedButton>
        )
      }
    >
      <p className={panel.gpuLine}>
        {found && <strong>{shownConfiguration(found)}</strong>}
        <span>{whyOf(search)}</span>
      </p>
      {found && job === null && (
        <Text size="sm" c="dimmed" mt={4}>
          The job of that trial was deleted, so the form can't use it. The command{" "}
          <code>schedulearn submit --as-found FILE</code> can.
        </Text>
      )}
    </Panel>
  );
}

function whyOf({ why, found, finished_at, state }: Search): string {
  if (why) return why;
  if (finished_at === null)
    return "It continues until the next trial is expected to gain less than 10%, or all trials are done.";
  return found ? "" : `It was ${state} before it found a configuration.`;
}

function TrialsTable({ trials }: { trials: TrialRow[] }) {
  const typed = trials.some((trial) => trial.gpu_type !== null);
  const batched = trials.some((trial) => trial.batch_size !== null);
  const columns = [
    "trial",
    ...(typed ? ["type"] : []),
    "GPUs",
    ...(batched ? ["batch"] : []),
    "state",
    "time, s",
    "cost",
    "expected gain",
    "role",
  ];
  return (
    <DataTable label="Trials" columns={columns}>
      {trials.map((trial) => (
        <tr key={trial.number} data-best={trial.best}>
          <td>{trial.job ? <Link to={`/jobs/${trial.job}`}>{trial.number}</Link> : trial.number}</td>
          {typed && <td>{trial.gpu_type ?? "any"}</td>}
          <td>{trial.required_gpus}</td>
          {batched && <td>{trial.batch_size ?? "the job's"}</td>}
          <td>
            <SweepBadge state={trial.state} />
          </td>
          <td>{fourDigits(trial.run_time)}</td>
          <td>{fourDigits(trial.cost)}</td>
          <td>{shownShare(trial.gain)}</td>
          <td>{trial.best ? <strong>{shownMarks(trial)}</strong> : shownMarks(trial)}</td>
        </tr>
      ))}
    </DataTable>
  );
}
