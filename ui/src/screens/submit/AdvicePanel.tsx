import { Alert, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { advise, type JobBody } from "../../api/commands";
import { hostsQuery } from "../../api/queries";
import type { AdviceOption, AdviceSpec } from "../../api/types";
import { Panel } from "../../components/Panel";
import { gpuTypes } from "../../gpus/types";
import { GuardedButton } from "../../may/GuardedButton";
import { useWhyNot } from "../../may/useMay";
import { Icon } from "../../shell/Icon";
import classes from "./Advice.module.css";
import { AdviceAnswer } from "./AdviceAnswer";
import { AdviceFields } from "./AdviceFields";
import { faultsIn, NO_QUESTION, placesOf, type Refusal, specOf, textOf } from "./advice";

interface Props {
  /** null: the form contains an invalid value. */
  job: JobBody | null;
  onTake: (option: AdviceOption) => void;
  /** Show errors of the job's keys at their fields. Return those without a field. */
  onJobFaults: (faults: Record<string, string>) => string;
}

interface Asked {
  spec: AdviceSpec;
  /** Text of the question and the job. */
  text: string;
}

/** Advice on GPUs and batch size for an objective. It is about the job in the form, before its submission. */
export function AdvicePanel({ job, onTake, onJobFaults }: Props) {
  const [question, setQuestion] = useState(NO_QUESTION);
  const [faults, setFaults] = useState<ReturnType<typeof faultsIn>>({});
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const whyNot = useWhyNot("submit");
  const hosts = useQuery(hostsQuery);
  const ask = useMutation({
    mutationFn: ({ spec }: Asked) => advise(spec),
    onError: (error) => {
      const found = placesOf(error);
      setFaults(found.own);
      const rest = Object.keys(found.job).length > 0 ? onJobFaults(found.job) : "";
      setRefusal({ ...found, rest: [found.rest, rest].filter(Boolean).join("; ") });
    },
  });
  const current = job !== null && ask.variables?.text === textOf(question, job);

  function send() {
    const found = faultsIn(question);
    setFaults(found);
    setRefusal(null);
    if (whyNot === null && job !== null && Object.keys(found).length === 0)
      ask.mutate({ spec: specOf(question, job), text: textOf(question, job) });
  }

  return (
    <Panel title="Advice">
      <form
        className={classes.form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <Text size="sm" c="dimmed">
          Numbers of GPUs and batch sizes with which the job meets an objective, predicted from finished jobs
          of its family. Nothing is submitted.
        </Text>
        <AdviceFields
          question={question}
          faults={faults}
          job={job}
          types={gpuTypes(hosts.data ?? [])}
          onChange={(change) => {
            setFaults({});
            setQuestion({ ...question, ...change });
          }}
        />
        <div>
          <GuardedButton
            whyNot={whyNot}
            type="submit"
            variant="default"
            loading={ask.isPending}
            disabled={job === null}
          >
            What would suit it?
          </GuardedButton>
        </div>
      </form>
      {current && refusal?.rest && <Refused refusal={refusal} />}
      {current && ask.data && ask.variables && (
        <AdviceAnswer advice={ask.data} spec={ask.variables.spec} job={job} onTake={onTake} />
      )}
    </Panel>
  );
}

function Refused({ refusal }: { refusal: Refusal }) {
  if (!refusal.noHistory)
    return (
      <Alert color="red" variant="light" mt="md" icon={<Icon name="alert" />} title="No advice" role="alert">
        {refusal.rest}
      </Alert>
    );
  return (
    <Alert
      variant="light"
      mt="md"
      icon={<Icon name="clock" />}
      title="No history yet"
      role="status"
      className={classes.words}
    >
      <p>{refusal.rest[0]?.toUpperCase() + refusal.rest.slice(1)}.</p>
      <p>
        Submit the job as it is: each finished job of the family adds history. Or find a good configuration
        with a few short trials: put the job into a file with <code>gpus</code> and <code>batch_sizes</code>{" "}
        to try, and run <code>schedulearn search FILE</code>.
      </p>
    </Alert>
  );
}
