import { Alert, Button, Group, Modal, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../api/client";
import { addHost } from "../api/commands";
import { keys } from "../api/keys";
import { Icon } from "../shell/Icon";

/** A button that asks for a Docker Engine's address. */
export function AddHost() {
  const [opened, setOpened] = useState(false);
  const [address, setAddress] = useState("");
  const [name, setName] = useState("");
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: addHost,
    onSuccess: (host) => {
      setOpened(false);
      setAddress("");
      setName("");
      notifications.show(
        host.reachable
          ? { message: `${host.id} answers.` }
          : { color: "red", message: `${host.id} is kept, but does not answer: ${host.error}` },
      );
    },
    onSettled: () => queries.invalidateQueries({ queryKey: [keys.hosts] }),
  });
  const fields = add.error instanceof ApiError ? add.error.fields : {};
  const placed = "address" in fields || "name" in fields;
  return (
    <>
      <Button leftSection={<Icon name="plus" />} onClick={() => setOpened(true)}>
        Add a host
      </Button>
      <Modal opened={opened} onClose={() => setOpened(false)} title="Add a host" centered>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            add.mutate({ address: address.trim(), name: name.trim() } as Parameters<typeof addHost>[0]);
          }}
        >
          <Text size="sm" c="dimmed" mb="sm">
            A Docker Engine. Nothing of Schedulearn's is installed there.
          </Text>
          <TextInput
            label="Address"
            placeholder="ssh://user@gpu2"
            data-autofocus
            value={address}
            error={fields.address}
            onChange={(event) => setAddress(event.currentTarget.value)}
          />
          <TextInput
            label="Name"
            description="Default: the host name in the address"
            mt="sm"
            value={name}
            error={fields.name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          {add.error && !placed && (
            <Alert color="red" variant="light" mt="sm" title="Not added" role="alert">
              {add.error.message}
            </Alert>
          )}
          <Group justify="flex-end" mt="lg">
            <Button type="submit" loading={add.isPending} disabled={address.trim() === ""}>
              Add
            </Button>
          </Group>
        </form>
      </Modal>
    </>
  );
}
