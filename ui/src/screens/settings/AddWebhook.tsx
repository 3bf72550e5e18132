import { Button, Checkbox, PasswordInput, Stack, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../../api/client";
import { addWebhook } from "../../api/commands";
import { keys } from "../../api/keys";
import { FormDialog } from "../../components/FormDialog";
import { Icon } from "../../shell/Icon";

const USUAL = ["job.ended", "host.lost", "gpu.unhealthy"];

/** Button with a form for a webhook's URL and events. `events` describes the available events by name. */
export function AddWebhook({ events }: { events: Record<string, string> }) {
  const [opened, setOpened] = useState(false);
  const [url, setUrl] = useState("");
  const [secret, setSecret] = useState("");
  const [chosen, setChosen] = useState(USUAL);
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: addWebhook,
    onSuccess: () => {
      notifications.show({ message: "Added. Send it a test." });
      close();
    },
    onSettled: () => queries.invalidateQueries({ queryKey: [keys.webhooks] }),
  });
  const faults = faultsOf(add.error);
  function close() {
    setOpened(false);
    setUrl("");
    setSecret("");
    setChosen(USUAL);
    add.reset();
  }
  return (
    <>
      <Button size="xs" variant="default" leftSection={<Icon name="plus" />} onClick={() => setOpened(true)}>
        Add a webhook
      </Button>
      <FormDialog
        title="Add a webhook"
        opened={opened}
        onClose={close}
        onSubmit={() => add.mutate({ url: url.trim(), events: chosen, secret })}
        action="Add"
        pending={add.isPending}
        disabled={url.trim() === "" || chosen.length === 0}
        error={add.error}
        refused="Not added"
        fields={["url", "events", "secret"]}
      >
        <TextInput
          label="URL"
          description="Receives a POST with JSON for each future event"
          placeholder="https://chat.example.org/hooks/abc"
          data-autofocus
          value={url}
          error={faults.url}
          onChange={(event) => setUrl(event.currentTarget.value)}
        />
        <Checkbox.Group label="Events" mt="md" value={chosen} onChange={setChosen} error={faults.events}>
          <Stack gap={6} mt={4}>
            {Object.entries(events).map(([name, meaning]) => (
              <Checkbox key={name} value={name} label={name} description={meaning.replaceAll("`", "")} />
            ))}
          </Stack>
        </Checkbox.Group>
        <PasswordInput
          label="Secret"
          description="Signs each request, so that the receiver can verify the sender. Never shown again"
          mt="md"
          autoComplete="new-password"
          value={secret}
          error={faults.secret}
          onChange={(event) => setSecret(event.currentTarget.value)}
        />
      </FormDialog>
    </>
  );
}
