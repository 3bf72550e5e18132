import { Button, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../../api/client";
import { setIds } from "../../api/commands";
import type { HostIds } from "../../api/types";
import { FormDialog } from "../../components/FormDialog";
import { idsOf, shownIds } from "./ids";
import { usePeopleChange } from "./usePeopleChange";

/** Ids under which a user's jobs write folders on the hosts. */
export function HostAccount({ name, ...ids }: { name: string } & HostIds) {
  const [opened, setOpened] = useState(false);
  const [text, setText] = useState("");
  const change = useMutation({ mutationFn: setIds, ...usePeopleChange(() => setOpened(false)) });
  const wanted = idsOf(text);
  const faults = faultsOf(change.error);
  const shown = shownIds(ids) || "nobody";
  const open = () => {
    change.reset();
    setText(shownIds(ids));
    setOpened(true);
  };
  return (
    <>
      <Button
        size="xs"
        variant="default"
        aria-label={`${shown}: account of ${name} on the hosts`}
        onClick={open}
      >
        {shown}
      </Button>
      <FormDialog
        title={`Account of ${name} on the hosts`}
        opened={opened}
        onClose={() => setOpened(false)}
        onSubmit={() => wanted !== null && change.mutate({ name, ids: wanted })}
        action="Save"
        pending={change.isPending}
        disabled={wanted === null}
        error={change.error}
        refused="Not saved"
        fields={["uid", "gid", "gids"]}
      >
        <TextInput
          label="uid:gid,group,..."
          description="IDs with which their jobs write to writable folders of the hosts. Empty: no writing."
          placeholder="1001:1001,200"
          data-autofocus
          value={text}
          error={
            wanted === null
              ? "Must be numbers: 1001:1001, or 1001:1001,200"
              : (faults.uid ?? faults.gid ?? faults.gids)
          }
          onChange={(event) => setText(event.currentTarget.value)}
        />
      </FormDialog>
    </>
  );
}
