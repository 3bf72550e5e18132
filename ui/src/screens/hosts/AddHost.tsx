import { Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../../api/client";
import { addHost } from "../../api/commands";
import { keys } from "../../api/keys";
import { FormDialog } from "../../components/FormDialog";
import { GuardedButton } from "../../may/GuardedButton";
import { useWhyNot } from "../../may/useMay";
import { Icon } from "../../shell/Icon";

/** Button with a form for a Docker Engine's address. */
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
          : { color: "red", message: `${host.id} was added, but does not answer: ${host.error}` },
      );
    },
    onSettled: () => queries.invalidateQueries({ queryKey: [keys.hosts] }),
  });
  const faults = faultsOf(add.error);
  return (
    <>
      <GuardedButton
        whyNot={useWhyNot("change_hosts")}
        leftSection={<Icon name="plus" />}
        onClick={() => setOpened(true)}
      >
        Add a host
      </GuardedButton>
      <FormDialog
        title="Add a host"
        opened={opened}
        onClose={() => setOpened(false)}
        onSubmit={() =>
          add.mutate({ address: address.trim(), name: name.trim() } as Parameters<typeof addHost>[0])
        }
        action="Add"
        pending={add.isPending}
        disabled={address.trim() === ""}
        error={add.error}
        refused="Not added"
        fields={["address", "name"]}
      >
        <Text size="sm" c="dimmed" mb="sm">
          Address of a Docker Engine. Nothing is installed there.
        </Text>
        <TextInput
          label="Address"
          placeholder="ssh://user@gpu2"
          data-autofocus
          value={address}
          error={faults.address}
          onChange={(event) => setAddress(event.currentTarget.value)}
        />
        <TextInput
          label="Name"
          description="Default: the host name in the address"
          mt="sm"
          value={name}
          error={faults.name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </FormDialog>
    </>
  );
}
