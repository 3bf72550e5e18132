import { Alert, Button, Group, Modal, NumberInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../api/client";
import { setQuota } from "../api/commands";
import type { Quota } from "../api/types";
import { EVERYBODY, fieldsOf, NO_QUOTA, type QuotaFields, specOf } from "./quotas";
import { usePeopleChange } from "./usePeopleChange";

const LABELS: Record<keyof QuotaFields, string> = {
  gpus: "GPUs held at once",
  gpu_hours: "GPU-hours within seven days",
  waiting: "Jobs that have not started",
  submissions: "Jobs submitted within a minute",
  weight: "Share against other users, with fair_share",
};

/** `quota`: what it is now; null: another one. */
export function QuotaDialog({ quota, onClose }: { quota: Quota | null; onClose: () => void }) {
  const [user, setUser] = useState(quota?.user ?? "");
  const [fields, setFields] = useState(quota ? fieldsOf(quota) : NO_QUOTA);
  const save = useMutation({ mutationFn: setQuota, ...usePeopleChange(onClose) });
  const faults = save.error instanceof ApiError ? save.error.fields : {};
  const names = Object.keys(LABELS) as (keyof QuotaFields)[];
  const placed = names.some((name) => name in faults);
  return (
    <Modal opened onClose={onClose} title={quota ? `Quota of ${quota.user}` : "Set a quota"} centered>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate({ user: user.trim(), quota: specOf(fields) });
        }}
      >
        {!quota && (
          <TextInput
            label="User"
            description={`${EVERYBODY} is all who have none of their own`}
            data-autofocus
            value={user}
            onChange={(event) => setUser(event.currentTarget.value)}
          />
        )}
        {names.map((name) => (
          <NumberInput
            key={name}
            mt="sm"
            label={LABELS[name]}
            placeholder={name === "weight" ? "1" : "no bound"}
            min={0}
            allowDecimal={name === "gpu_hours" || name === "weight"}
            value={fields[name]}
            error={faults[name]}
            onChange={(value) => setFields((before) => ({ ...before, [name]: value }))}
          />
        ))}
        {save.error && !placed && (
          <Alert color="red" variant="light" mt="sm" title="Not set" role="alert">
            {save.error.message}
          </Alert>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Keep
          </Button>
          <Button type="submit" loading={save.isPending} disabled={user.trim() === ""}>
            Set
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
