import { Button, Group, Modal, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../../api/client";
import { addToken } from "../../api/commands";
import { keys } from "../../api/keys";
import { FormDialog } from "../../components/FormDialog";
import { CopyButton } from "../../shell/CopyButton";
import { Icon } from "../../shell/Icon";
import classes from "./SettingsScreen.module.css";

/** A button that makes a token and shows it, once. */
export function AddToken() {
  const [opened, setOpened] = useState(false);
  const [name, setName] = useState("");
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: addToken,
    onSettled: () => queries.invalidateQueries({ queryKey: [keys.tokens] }),
  });
  function close() {
    setOpened(false);
    setName("");
    add.reset(); // the token is not kept here either
  }
  return (
    <>
      <Button size="xs" variant="default" leftSection={<Icon name="plus" />} onClick={() => setOpened(true)}>
        Create a token
      </Button>
      <FormDialog
        title="Create a token"
        opened={opened && !add.data}
        onClose={close}
        onSubmit={() => add.mutate(name.trim())}
        action="Create"
        pending={add.isPending}
        disabled={name.trim() === ""}
        error={add.error}
        refused="Not created"
        fields={["name"]}
      >
        <TextInput
          label="Name"
          description="Whose it is, or what for"
          placeholder="ada's laptop"
          data-autofocus
          value={name}
          error={faultsOf(add.error).name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </FormDialog>
      {add.data && (
        <Modal opened onClose={close} title={`Token ${add.data.name}`} centered closeOnClickOutside={false}>
          <Text size="sm" mb="sm">
            Copy it now: it is shown this once, and only its hash is kept.
          </Text>
          <code className={classes.secret} data-testid="token">
            {add.data.token}
          </code>
          <Group justify="flex-end" mt="lg">
            <CopyButton text={add.data.token} />
            <Button size="xs" onClick={close}>
              Done
            </Button>
          </Group>
        </Modal>
      )}
    </>
  );
}
