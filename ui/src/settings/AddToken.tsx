import { Alert, Button, Group, Modal, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../api/client";
import { addToken } from "../api/commands";
import { keys } from "../api/keys";
import { CopyButton } from "../shell/CopyButton";
import { Icon } from "../shell/Icon";
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
  const fields = add.error instanceof ApiError ? add.error.fields : {};
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
      <Modal
        opened={opened}
        onClose={close}
        title={add.data ? `Token ${add.data.name}` : "Create a token"}
        centered
        closeOnClickOutside={!add.data}
      >
        {add.data ? (
          <>
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
          </>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              add.mutate(name.trim());
            }}
          >
            <TextInput
              label="Name"
              description="Whose it is, or what for"
              placeholder="ada's laptop"
              data-autofocus
              value={name}
              error={fields.name}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            {add.error && !fields.name && (
              <Alert color="red" variant="light" mt="sm" title="Not created" role="alert">
                {add.error.message}
              </Alert>
            )}
            <Group justify="flex-end" mt="lg">
              <Button type="submit" loading={add.isPending} disabled={name.trim() === ""}>
                Create
              </Button>
            </Group>
          </form>
        )}
      </Modal>
    </>
  );
}
