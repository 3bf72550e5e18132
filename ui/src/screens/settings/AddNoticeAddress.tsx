import { Button, Checkbox, PasswordInput, Stack, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../../api/client";
import { setNoticeAddress } from "../../api/commands";
import { keys } from "../../api/keys";
import { FormDialog } from "../../components/FormDialog";
import { Icon } from "../../shell/Icon";

const USUAL = ["end", "hang"];

interface Props {
  /** Meaning of each event. */
  events: Record<string, string>;
  hasMail: boolean;
}

/** Button with a form for an address. */
export function AddNoticeAddress({ events, hasMail }: Props) {
  const [opened, setOpened] = useState(false);
  const [name, setName] = useState("");
  const [address, setAddress] = useState("");
  const [chosen, setChosen] = useState(USUAL);
  const [everyJob, setEveryJob] = useState(false);
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: setNoticeAddress,
    onSuccess: () => {
      notifications.show({ message: "Added. Send it a trial." });
      close();
    },
    onSettled: () => queries.invalidateQueries({ queryKey: [keys.notify] }),
  });
  const faults = faultsOf(add.error);
  function close() {
    setOpened(false);
    setName("");
    setAddress("");
    setChosen(USUAL);
    setEveryJob(false);
    add.reset();
  }
  return (
    <>
      <Button size="xs" variant="default" leftSection={<Icon name="plus" />} onClick={() => setOpened(true)}>
        Add an address
      </Button>
      <FormDialog
        title="Add an address for notices"
        opened={opened}
        onClose={close}
        onSubmit={() =>
          add.mutate({
            name: name.trim(),
            address: address.trim(),
            events: chosen.join(","),
            every_job: everyJob,
          })
        }
        action="Add"
        pending={add.isPending}
        disabled={name.trim() === "" || address.trim() === "" || chosen.length === 0}
        error={add.error}
        refused="Not added"
        fields={["name", "address", "events"]}
      >
        <TextInput
          label="Name"
          description="For jobs that name it, e.g. phone. An existing one is replaced"
          data-autofocus
          value={name}
          error={faults.name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <PasswordInput
          label="Address"
          description={`${hasMail ? "An e-mail address, or a" : "A"} URL such as ntfy://ntfy.sh/topic, slack://... or https://... It may be a secret, and is not shown again`}
          mt="md"
          autoComplete="off"
          value={address}
          error={faults.address}
          onChange={(event) => setAddress(event.currentTarget.value)}
        />
        <Checkbox.Group label="Events" mt="md" value={chosen} onChange={setChosen} error={faults.events}>
          <Stack gap={6} mt={4}>
            {Object.entries(events).map(([event, meaning]) => (
              <Checkbox key={event} value={event} label={event} description={meaning} />
            ))}
          </Stack>
        </Checkbox.Group>
        <Checkbox
          label="For all my jobs"
          description="Also those without notify"
          mt="md"
          checked={everyJob}
          onChange={(event) => setEveryJob(event.currentTarget.checked)}
        />
      </FormDialog>
    </>
  );
}
