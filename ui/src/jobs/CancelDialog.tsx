import { Button, Group, List, Modal, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { cancelJobs } from "../api/commands";
import { keys } from "../api/keys";
import type { Job } from "../api/types";
import { plural } from "../format/number";

const NAMED = 6;

interface Props {
  jobs: Pick<Job, "id" | "name" | "state">[];
  /** Number of other chosen jobs that the user may not cancel. */
  others?: number;
  opened: boolean;
  onClose: () => void;
  onDone?: () => void;
}

export function CancelDialog({ jobs, others = 0, opened, onClose, onDone }: Props) {
  const queries = useQueryClient();
  const cancel = useMutation({
    mutationFn: cancelJobs,
    onSuccess: ({ done, failed }) => {
      if (done > 0) notifications.show({ message: `Cancelled ${plural(done, "job")}.` });
      for (const error of failed.slice(0, 3)) notifications.show({ color: "red", message: error.message });
      onDone?.();
    },
    onSettled: () => {
      for (const key of [keys.jobs, keys.job, keys.hosts]) queries.invalidateQueries({ queryKey: [key] });
      onClose();
    },
  });
  const running = jobs.filter((job) => job.state !== "queued" && job.state !== "pulling").length;
  const title = jobs.length === 1 ? "Cancel this job?" : `Cancel ${plural(jobs.length, "job")}?`;
  return (
    <Modal opened={opened} onClose={onClose} title={title} centered>
      <List size="sm" mb="sm">
        {jobs.slice(0, NAMED).map((job) => (
          <List.Item key={job.id} style={{ overflowWrap: "anywhere" }}>
            {job.name}
          </List.Item>
        ))}
      </List>
      {jobs.length > NAMED && (
        <Text size="sm" mb="sm">
          and {jobs.length - NAMED} more
        </Text>
      )}
      {others > 0 && (
        <Text size="sm" mb="sm">
          {plural(others, "job")} of other users {others === 1 ? "stays" : "stay"}: only they and admins may
          cancel {others === 1 ? "it" : "them"}.
        </Text>
      )}
      <Text size="sm" c="dimmed">
        {running > 0
          ? "Running containers get a signal and time to end. This can't be undone, but a job can be submitted again."
          : "This can't be undone, but a job can be submitted again."}
      </Text>
      <Group justify="flex-end" mt="lg">
        <Button variant="default" onClick={onClose} data-autofocus>
          Keep
        </Button>
        <Button
          color="red"
          loading={cancel.isPending}
          disabled={jobs.length === 0}
          onClick={() => cancel.mutate(jobs.map((job) => job.id))}
        >
          {jobs.length === 1 ? "Cancel the job" : `Cancel ${plural(jobs.length, "job")}`}
        </Button>
      </Group>
    </Modal>
  );
}
