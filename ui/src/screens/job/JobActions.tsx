import { Button, Group, Menu, Modal, Slider, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { holdJob, setPriority, submitJob } from "../../api/commands";
import { idempotencyKey } from "../../api/idempotencyKey";
import { keys } from "../../api/keys";
import type { JobDetail } from "../../api/types";
import { tellWithUndo } from "../../components/tellWithUndo";
import { CancelDialog } from "../../jobs/CancelDialog";
import { asCommand, asCurl, asPython } from "../../jobs/copies";
import { canCancel, type Holding, holdingOf, isOver } from "../../jobs/states";
import { hiddenIn, specOf } from "../../jobs/values";
import { GuardedButton } from "../../may/GuardedButton";
import { GuardedItem } from "../../may/GuardedItem";
import { useWhyNot, useWhyNotOf } from "../../may/useMay";
import { copyText } from "../../shell/CopyButton";
import { Icon } from "../../shell/Icon";

const HOLDINGS: Record<Holding, { name: string; done: string }> = {
  hold: { name: "Hold", done: "It is held: it does not start before its release." },
  release: { name: "Release", done: "It may start now." },
  pause: { name: "Pause", done: "It saves a checkpoint, gives its GPUs back, and waits." },
  resume: { name: "Resume", done: "It may start again from its checkpoint." },
};

const COPIES = { "as curl": asCurl, "as a command": asCommand, "as Python": asPython };

/** Actions for a job. */
export function JobActions({ job }: { job: JobDetail }) {
  const [asking, setAsking] = useState<"cancel" | "priority" | null>(null);
  const [priority, setWanted] = useState(job.priority);
  const whyNotSubmit = useWhyNot("submit");
  const whyNotChange = useWhyNotOf(job.user);
  const queries = useQueryClient();
  const navigate = useNavigate();
  const body = specOf(job);
  const holding = holdingOf(job);
  const onError = (error: Error) => notifications.show({ color: "red", message: error.message });
  const again = useMutation({
    mutationFn: submitJob,
    onSuccess: (made) => {
      queries.invalidateQueries({ queryKey: [keys.jobs] });
      notifications.show({ message: `Submitted ${made.name} again.` });
      navigate(`/jobs/${made.id}`);
    },
    onError,
  });
  const change = useMutation({
    mutationFn: setPriority,
    onMutate: () => job.priority,
    onSuccess: (_, { priority }, before) => {
      if (priority !== before)
        tellWithUndo(`Its priority is ${priority}.`, () => change.mutate({ id: job.id, priority: before }));
      return queries.invalidateQueries({ queryKey: [keys.job, job.id] });
    },
    onError,
    onSettled: () => setAsking(null),
  });
  const keep = useMutation({
    mutationFn: holdJob,
    onSuccess: (_, { how }) => {
      notifications.show({ message: HOLDINGS[how].done });
      return queries.invalidateQueries({ queryKey: [keys.job, job.id] });
    },
    onError,
  });
  return (
    <>
      {holding && (
        <GuardedButton
          variant="default"
          whyNot={whyNotChange}
          loading={keep.isPending}
          onClick={() => keep.mutate({ id: job.id, how: holding })}
        >
          {HOLDINGS[holding].name}
        </GuardedButton>
      )}
      <GuardedButton
        whyNot={whyNotSubmit}
        to={`/submit?from=${job.id}`}
        variant="default"
        leftSection={<Icon name="copy" size={14} />}
      >
        Clone
      </GuardedButton>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default">More</Button>
        </Menu.Target>
        <Menu.Dropdown>
          <GuardedItem
            whyNot={whyNotSubmit}
            disabled={again.isPending}
            onClick={() =>
              again.mutate({
                body,
                key: idempotencyKey(),
                envFrom: hiddenIn(body.env).length > 0 ? job.id : undefined,
              })
            }
          >
            Resubmit as it is
          </GuardedItem>
          <GuardedItem whyNot={whyNotSubmit} to={`/submit?from=tensorboard&of=${job.id}`}>
            TensorBoard over its outputs
          </GuardedItem>
          {!isOver(job.state) && (
            <GuardedItem
              whyNot={whyNotChange}
              onClick={() => {
                setWanted(job.priority);
                setAsking("priority");
              }}
            >
              Change the priority
            </GuardedItem>
          )}
          <Menu.Label>Copy the submission</Menu.Label>
          {Object.entries(COPIES).map(([name, write]) => (
            <Menu.Item
              key={name}
              onClick={async () => {
                await copyText(write(body, window.location.origin));
                notifications.show({ message: `Copied ${name}.` });
              }}
            >
              {name}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      {canCancel(job.state) && (
        <GuardedButton
          color="red"
          variant="outline"
          whyNot={whyNotChange}
          onClick={() => setAsking("cancel")}
        >
          Cancel
        </GuardedButton>
      )}
      <CancelDialog jobs={[job]} opened={asking === "cancel"} onClose={() => setAsking(null)} />
      <Modal
        opened={asking === "priority"}
        onClose={() => setAsking(null)}
        title="Change the priority"
        centered
      >
        <Text size="sm" c="dimmed" mb="lg">
          0 to 100, higher first, 50 by default. Policies with priorities use it from the next scheduling
          cycle.
        </Text>
        <Slider
          thumbLabel="Priority"
          min={0}
          max={100}
          value={priority}
          onChange={setWanted}
          labelAlwaysOn
          marks={[{ value: 0 }, { value: 50 }, { value: 100 }]}
          mt="xl"
        />
        <Group justify="flex-end" mt="xl">
          <Button variant="default" onClick={() => setAsking(null)}>
            Keep {job.priority}
          </Button>
          <Button loading={change.isPending} onClick={() => change.mutate({ id: job.id, priority })}>
            Set {priority}
          </Button>
        </Group>
      </Modal>
    </>
  );
}
