import { Button, Group, List, Modal, NumberInput, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { drainHost, removeHost } from "../../api/commands";
import { holdersQuery } from "../../api/queries";
import type { Host, Job } from "../../api/types";
import { plural } from "../../format/number";
import { Confirm } from "../../shell/Confirm";
import { fateOf, jobsOn } from "./drain";
import { useAfterChange } from "./useAfterChange";

const NAMED = 6;

interface Props {
  host: Host;
  onClose: () => void;
}

export function DrainDialog({ host, onClose }: Props) {
  const drain = useMutation({ mutationFn: drainHost, ...useAfterChange(onClose) });
  const { data: holders } = useQuery(holdersQuery);
  return (
    <Draining
      what={host.id}
      kind="host"
      jobs={holders && jobsOn(host.id, holders)}
      pending={drain.isPending}
      onDrain={(seconds) => drain.mutate({ id: host.id, seconds })}
      onClose={onClose}
    />
  );
}

interface DrainingProps {
  what: string;
  kind: "host" | "GPU";
  /** undefined while loading. */
  jobs: readonly Job[] | undefined;
  pending: boolean;
  onDrain: (seconds: number) => void;
  onClose: () => void;
}

/** Confirmation of a drain that names its effect on each job. */
export function Draining({ what, kind, jobs, pending, onDrain, onClose }: DrainingProps) {
  const [minutes, setMinutes] = useState<number | string>(60);
  return (
    <Modal opened onClose={onClose} title={`Drain ${what}?`} centered>
      <Text size="sm" mb="sm">
        No new jobs start.{" "}
        {jobs === undefined
          ? "Jobs that run there leave it."
          : jobs.length > 0
            ? `${plural(jobs.length, "job")} ${jobs.length === 1 ? "leaves" : "leave"} it:`
            : "No job runs there now."}
      </Text>
      <List size="sm" mb="sm">
        {jobs?.slice(0, NAMED).map((job) => (
          <List.Item key={job.id} style={{ overflowWrap: "anywhere" }}>
            <Link to={`/jobs/${job.id}`}>{job.name}</Link>
            {job.user && ` of ${job.user}`}: {fateOf(job, Number(minutes))}
          </List.Item>
        ))}
      </List>
      {jobs && jobs.length > NAMED && (
        <Text size="sm" mb="sm">
          and {jobs.length - NAMED} more
        </Text>
      )}
      <NumberInput
        label="Minutes until rigid jobs are stopped too"
        min={0}
        value={minutes}
        onChange={setMinutes}
      />
      <Group justify="flex-end" mt="lg">
        <Button variant="default" onClick={onClose} data-autofocus>
          Keep
        </Button>
        <Button
          color="red"
          loading={pending}
          disabled={minutes === ""}
          onClick={() => onDrain(Number(minutes) * 60)}
        >
          Drain the {kind}
        </Button>
      </Group>
    </Modal>
  );
}

export function RemoveDialog({ host, onClose }: Props) {
  const remove = useMutation({ mutationFn: removeHost, ...useAfterChange(onClose) });
  return (
    <Confirm
      title={`Remove ${host.id}?`}
      action="Remove the host"
      pending={remove.isPending}
      onConfirm={() => remove.mutate(host.id)}
      onClose={onClose}
    >
      The host is removed from Schedulearn; its Docker Engine is not changed. Drain a host with jobs first.
    </Confirm>
  );
}
