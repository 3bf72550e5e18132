import { Button, Group, NativeSelect, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import type { Analysis, Experiment } from "../../../api/types";
import { download } from "../../../chart/picture";
import panel from "../../../components/Panel.module.css";
import { Icon } from "../../../shell/Icon";
import { Loaded } from "../../../shell/Loaded";
import { useSetAddress } from "../../../shell/useAddress";
import { allTrials, analysisQuery, experimentQuery } from "../../../sweeps/queries";
import { fourDigits } from "../../../sweeps/runs";
import { CellsTable, TermsTable } from "./AnalysisTables";
import { runsCsv } from "./csv";
import { Drawings } from "./Drawings";
import { gapsOf, lackOf, measuredIn, responseOf } from "./results";

/** Effects of an experiment's factors on its results. */
export default function ExperimentView({ id }: { id: string }) {
  const experiment = useQuery(experimentQuery(id));
  return (
    <Loaded query={experiment} title="The experiment can't be read">
      {(found) => <Results experiment={found} />}
    </Loaded>
  );
}

function Results({ experiment }: { experiment: Experiment }) {
  const set = useSetAddress();
  const [address] = useSearchParams();
  const response = responseOf(address.get("response") ?? "", experiment);
  const lack = lackOf(experiment, response);
  return (
    <>
      <Group mb="md" gap="sm" align="flex-end">
        <NativeSelect
          label="Response"
          data={experiment.responses.length > 0 ? experiment.responses : [response]}
          value={response}
          onChange={(event) => set("response", event.currentTarget.value)}
        />
        <CsvButton experiment={experiment} />
      </Group>
      {lack === null ? (
        <Analyzed experiment={experiment} response={response} />
      ) : (
        <Text c="dimmed">{lack}</Text>
      )}
    </>
  );
}

function CsvButton({ experiment: { id, name } }: { experiment: Experiment }) {
  const save = useMutation({
    mutationFn: () => allTrials(id),
    onSuccess: (found) => download(new Blob([runsCsv(found)], { type: "text/csv" }), `${name}.csv`),
  });
  return (
    <>
      <Button
        variant="default"
        leftSection={<Icon name="download" />}
        loading={save.isPending}
        onClick={() => save.mutate()}
      >
        CSV of all runs
      </Button>
      {save.error && (
        <Text size="sm" c="red" role="alert">
          {save.error.message}
        </Text>
      )}
    </>
  );
}

function Analyzed({ experiment, response }: { experiment: Experiment; response: string }) {
  const measured = measuredIn(experiment.table, response).length;
  const analysis = useQuery(analysisQuery(experiment.id, response, measured));
  return (
    <Loaded query={analysis} title="The analysis failed">
      {(found) => (
        <div className={panel.stack}>
          <Summary experiment={experiment} analysis={found} />
          <Drawings analysis={found} table={experiment.table} />
          <TermsTable analysis={found} />
          <CellsTable analysis={found} />
        </div>
      )}
    </Loaded>
  );
}

/** Summary of the analysis, and the runs that it lacks. */
function Summary({ experiment, analysis }: { experiment: Experiment; analysis: Analysis }) {
  const gaps = gapsOf(experiment, analysis);
  return (
    <div>
      <Text size="sm">
        Mean of {analysis.response} over {analysis.runs} runs: {fourDigits(analysis.mean)}. The factors
        explain {Math.round(100 * analysis.r2)}% of its variation.
      </Text>
      <Text size="sm" c="dimmed" mih="1.5em">
        {gaps ?? "All runs are included."}
        {experiment.next !== null && ` The distribution shows the first ${experiment.table.length} runs.`}
      </Text>
    </div>
  );
}
