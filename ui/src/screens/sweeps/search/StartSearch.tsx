import { NativeSelect, NumberInput, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { keys } from "../../../api/keys";
import { findJobsQuery } from "../../../api/queries";
import { useKeyOf } from "../../../api/useKeyOf";
import { FormDialog } from "../../../components/FormDialog";
import { GuardedButton } from "../../../may/GuardedButton";
import { useWhyNot } from "../../../may/useMay";
import { Icon } from "../../../shell/Icon";
import { startSearch } from "../../../sweeps/queries";
import { type Asked, jobText, NOTHING, toSearch } from "./asked";

const GOALS = [
  { value: "both", label: "the product of time and cost" },
  { value: "time", label: "the time of a trial" },
  { value: "cost", label: "the cost of a trial" },
];

/** Button with a form that starts a search. */
export function StartSearch() {
  const [opened, setOpened] = useState(false);
  return (
    <>
      <GuardedButton
        whyNot={useWhyNot("submit")}
        variant="default"
        leftSection={<Icon name="search" />}
        onClick={() => setOpened(true)}
      >
        Search for a configuration
      </GuardedButton>
      {opened && <SearchDialog onClose={() => setOpened(false)} />}
    </>
  );
}

function SearchDialog({ onClose }: { onClose: () => void }) {
  const [asked, setAsked] = useState(NOTHING);
  const [from, setFrom] = useState("");
  const keyOf = useKeyOf();
  const { data: jobs } = useQuery(findJobsQuery(""));
  const navigate = useNavigate();
  const queries = useQueryClient();
  const start = useMutation({
    mutationFn: async (what: Asked) => {
      const body = toSearch(what);
      return startSearch({ body, key: keyOf(body) });
    },
    onSuccess: ({ id }) => {
      queries.invalidateQueries({ queryKey: [keys.sweeps] });
      navigate(`/sweeps/${id}`);
    },
  });
  const change = (changed: Partial<Asked>) => setAsked((before) => ({ ...before, ...changed }));

  function take(id: string) {
    setFrom(id);
    const job = jobs?.items.find((each) => each.id === id);
    if (job) change({ job: jobText(job), name: asked.name || job.name });
  }

  return (
    <FormDialog
      title="Search for a configuration"
      opened
      onClose={onClose}
      onSubmit={() => start.mutate(asked)}
      action="Start"
      pending={start.isPending}
      disabled={asked.name.trim() === "" || asked.job.trim() === "" || asked.gpus.trim() === ""}
      error={start.error}
      refused="Not started"
      fields={[]}
    >
      <NativeSelect
        label="Start from job"
        data={[
          { value: "", label: "none" },
          ...(jobs?.items ?? []).map((job) => ({
            value: job.id,
            label: `${job.name} (${job.command.slice(0, 40)})`,
          })),
        ]}
        value={from}
        onChange={(event) => take(event.currentTarget.value)}
        data-autofocus
      />
      <TextInput
        mt="sm"
        label="Name"
        value={asked.name}
        onChange={(event) => change({ name: event.currentTarget.value })}
      />
      <Textarea
        mt="sm"
        label="Job as JSON"
        description="Keep it short, for example one epoch. {batch_size} in its command is replaced by the trial's batch size"
        autosize
        minRows={4}
        maxRows={12}
        classNames={{ input: "mono" }}
        value={asked.job}
        onChange={(event) => change({ job: event.currentTarget.value })}
      />
      <TextInput
        mt="sm"
        label="Numbers of GPUs"
        value={asked.gpus}
        onChange={(event) => change({ gpus: event.currentTarget.value })}
      />
      <TextInput
        mt="sm"
        label="Batch sizes"
        placeholder="the job's own"
        value={asked.batchSizes}
        onChange={(event) => change({ batchSizes: event.currentTarget.value })}
      />
      <TextInput
        mt="sm"
        label="Types of GPU"
        description="As shown by the hosts, separated by commas"
        placeholder="any"
        value={asked.gpuTypes}
        onChange={(event) => change({ gpuTypes: event.currentTarget.value })}
      />
      <NativeSelect
        mt="sm"
        label="Minimize"
        data={GOALS}
        value={asked.goal}
        onChange={(event) => change({ goal: event.currentTarget.value as Asked["goal"] })}
      />
      <NumberInput
        mt="sm"
        label="Maximum trials"
        placeholder="a quarter of all configurations, at least 10"
        min={1}
        allowDecimal={false}
        value={asked.trials}
        onChange={(trials) => change({ trials })}
      />
    </FormDialog>
  );
}
