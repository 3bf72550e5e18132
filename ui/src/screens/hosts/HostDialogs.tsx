import { Button, Group, Modal, NumberInput, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { drainHost, removeHost } from "../../api/commands";
import type { Host } from "../../api/types";
import { plural } from "../../format/number";
import { Confirm } from "../../shell/Confirm";
import { useAfterChange } from "./useAfterChange";

interface Props {
  host: Host;
  onClose: () => void;
}

export function DrainDialog({ host, onClose }: Props) {
  const [minutes, setMinutes] = useState<number | string>(60);
  const drain = useMutation({ mutationFn: drainHost, ...useAfterChange(onClose) });
  const jobs = new Set(host.gpus.flatMap((gpu) => gpu.jobs)).size;
  return (
    <Modal opened onClose={onClose} title={`Drain ${host.id}?`} centered>
      <Text size="sm" mb="sm">
        No job comes any more. Elastic jobs leave at once, from their checkpoint; the others are stopped when
        the time is up and start elsewhere.{" "}
        {jobs > 0 ? `${plural(jobs, "job")} now.` : "No job is there now."}
      </Text>
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
          loading={drain.isPending}
          disabled={minutes === ""}
          onClick={() => drain.mutate({ id: host.id, seconds: Number(minutes) * 60 })}
        >
          Drain the host
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
      Schedulearn forgets the host; its Docker Engine stays as it is. A host with jobs has to be drained
      first.
    </Confirm>
  );
}
