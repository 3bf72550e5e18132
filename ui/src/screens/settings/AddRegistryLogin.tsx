import { Button, NativeSelect, PasswordInput, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../../api/client";
import { setRegistryLogin } from "../../api/commands";
import { keys } from "../../api/keys";
import type { WhoAmI } from "../../api/types";
import { FormDialog } from "../../components/FormDialog";
import { Icon } from "../../shell/Icon";

const HOLDERS = ["me", "a group", "everybody"];

/** Button with a form for a login. Only admins choose for whom it is. */
export function AddRegistryLogin({ me }: { me: WhoAmI }) {
  const [opened, setOpened] = useState(false);
  const [registry, setRegistry] = useState("");
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [holder, setHolder] = useState("me");
  const [group, setGroup] = useState("");
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: setRegistryLogin,
    onSuccess: (made) => {
      notifications.show({ message: made.message, ...(made.checked ? {} : { color: "yellow" }) });
      close();
    },
    onSettled: () => queries.invalidateQueries({ queryKey: [keys.registries] }),
  });
  const faults = faultsOf(add.error);
  const ofGroup = holder === "a group";
  function close() {
    setOpened(false);
    setRegistry("");
    setUsername("");
    setPassword("");
    setHolder("me");
    setGroup("");
    add.reset();
  }
  return (
    <>
      <Button size="xs" variant="default" leftSection={<Icon name="plus" />} onClick={() => setOpened(true)}>
        Add a login
      </Button>
      <FormDialog
        title="Log in to a registry"
        opened={opened}
        onClose={close}
        onSubmit={() =>
          add.mutate({
            registry: registry.trim(),
            username: username.trim(),
            password,
            ...(ofGroup ? { group: group.trim() } : { shared: holder === "everybody" }),
          })
        }
        action="Log in"
        pending={add.isPending}
        disabled={
          registry.trim() === "" ||
          username.trim() === "" ||
          password === "" ||
          (ofGroup && group.trim() === "")
        }
        error={add.error}
        refused="Not logged in"
        fields={["name", "username", "password", "group"]}
      >
        <TextInput
          label="Registry"
          description="As in names of images, e.g. registry.lab:5000"
          data-autofocus
          value={registry}
          error={faults.name}
          onChange={(event) => setRegistry(event.currentTarget.value)}
        />
        <TextInput
          label="Username"
          mt="md"
          autoComplete="off"
          value={username}
          error={faults.username}
          onChange={(event) => setUsername(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          description="Or an access token. It is stored encrypted, and not shown again"
          mt="md"
          autoComplete="off"
          value={password}
          error={faults.password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        {me.role === "admin" && (
          <NativeSelect
            label="For the jobs of"
            mt="md"
            data={HOLDERS}
            value={holder}
            onChange={(event) => setHolder(event.currentTarget.value)}
          />
        )}
        {ofGroup && (
          <TextInput
            label="Group"
            mt="md"
            value={group}
            error={faults.group}
            onChange={(event) => setGroup(event.currentTarget.value)}
          />
        )}
      </FormDialog>
    </>
  );
}
