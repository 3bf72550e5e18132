import { NativeSelect, Stack } from "@mantine/core";
import { useState } from "react";
import type { LeftBy } from "../../api/types";
import { Confirm } from "../../shell/Confirm";

/** Confirmation of a removal. It asks what to do with the user's jobs, secrets and data. */
export function RemoveUser({
  name,
  pending,
  onConfirm,
  onClose,
}: {
  name: string;
  pending: boolean;
  onConfirm: (left: LeftBy) => void;
  onClose: () => void;
}) {
  const [left, setLeft] = useState<LeftBy>({ jobs: "cancel", secrets: "remove", data: "keep" });
  return (
    <Confirm
      title={`Remove ${name}?`}
      action="Remove the user"
      pending={pending}
      onConfirm={() => onConfirm(left)}
      onClose={onClose}
    >
      Their tokens are revoked and their sessions end. A new user of this name gets none of their data.
      <Stack gap="sm" mt="md" component="span">
        <NativeSelect
          label="Jobs and sweeps that have not ended"
          data={[
            { value: "cancel", label: "Cancel them" },
            { value: "keep", label: "Let them continue" },
          ]}
          value={left.jobs}
          onChange={(event) => setLeft({ ...left, jobs: event.currentTarget.value as LeftBy["jobs"] })}
        />
        <NativeSelect
          label="Secrets"
          data={[
            { value: "remove", label: "Remove them" },
            { value: "keep", label: "Keep them for jobs that continue" },
          ]}
          value={left.secrets}
          onChange={(event) => setLeft({ ...left, secrets: event.currentTarget.value as LeftBy["secrets"] })}
        />
        <NativeSelect
          label="Data sets and models"
          data={[
            { value: "keep", label: "Keep them, for admins to change" },
            { value: "remove", label: "Remove them" },
          ]}
          value={left.data}
          onChange={(event) => setLeft({ ...left, data: event.currentTarget.value as LeftBy["data"] })}
        />
      </Stack>
    </Confirm>
  );
}
