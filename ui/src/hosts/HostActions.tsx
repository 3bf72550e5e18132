import { Button, Group, Menu, Modal, NumberInput, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { drainHost, removeHost, setCordon } from "../api/commands";
import { keys } from "../api/keys";
import type { Host } from "../api/types";
import { plural } from "../format/size";

/** What can be done to a host; what moves or ends jobs is asked about first. */
export function HostActions({ host }: { host: Host }) {
  const [asking, setAsking] = useState<"drain" | "remove" | null>(null);
  const [minutes, setMinutes] = useState<number | string>(60);
  const queries = useQueryClient();
  const then = {
    onError: (error: Error) => notifications.show({ color: "red", message: error.message }),
    onSettled: () => {
      setAsking(null);
      return queries.invalidateQueries({ queryKey: [keys.hosts] });
    },
  };
  const cordon = useMutation({ mutationFn: setCordon, ...then });
  const drain = useMutation({ mutationFn: drainHost, ...then });
  const remove = useMutation({ mutationFn: removeHost, ...then });
  const jobs = new Set(host.gpus.flatMap((gpu) => gpu.jobs)).size;
  const open = host.state === "active";
  return (
    <>
      <Group gap={8} ml="auto">
        <Button
          size="xs"
          variant="default"
          loading={cordon.isPending}
          onClick={() => cordon.mutate({ id: host.id, cordoned: open })}
        >
          {open ? "Cordon" : "Uncordon"}
        </Button>
        {host.state !== "draining" && (
          <Button size="xs" variant="default" onClick={() => setAsking("drain")}>
            Drain
          </Button>
        )}
        {host.origin === "api" && (
          <Menu position="bottom-end">
            <Menu.Target>
              <Button size="xs" variant="default" aria-label={`More for ${host.id}`}>
                …
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item color="red" onClick={() => setAsking("remove")}>
                Remove
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        )}
      </Group>
      <Modal opened={asking === "drain"} onClose={() => setAsking(null)} title={`Drain ${host.id}?`} centered>
        <Text size="sm" mb="sm">
          No job comes any more. Elastic jobs leave at once, from their checkpoint; the others are stopped
          when the time is up and start elsewhere.{" "}
          {jobs > 0 ? `${plural(jobs, "job")} now.` : "No job is there now."}
        </Text>
        <NumberInput
          label="Minutes until rigid jobs are stopped too"
          min={0}
          value={minutes}
          onChange={setMinutes}
        />
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={() => setAsking(null)} data-autofocus>
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
      <Modal
        opened={asking === "remove"}
        onClose={() => setAsking(null)}
        title={`Remove ${host.id}?`}
        centered
      >
        <Text size="sm">
          Schedulearn forgets the host; its Docker Engine stays as it is. A host with jobs has to be drained
          first.
        </Text>
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={() => setAsking(null)} data-autofocus>
            Keep
          </Button>
          <Button color="red" loading={remove.isPending} onClick={() => remove.mutate(host.id)}>
            Remove the host
          </Button>
        </Group>
      </Modal>
    </>
  );
}
