import { NumberInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../../api/client";
import { setQuota } from "../../api/commands";
import type { Quota } from "../../api/types";
import { FormDialog } from "../../components/FormDialog";
import { BOUND_LABELS, EVERYBODY, FRACTIONAL, fieldsOf, NO_QUOTA, type QuotaFields, specOf } from "./quotas";
import { usePeopleChange } from "./usePeopleChange";

const LABELS: Record<keyof QuotaFields, string> = {
  ...BOUND_LABELS,
  weight: "Share against other users, with fair_share",
};

/** Form for a quota. `quota` is the quota to change; null: a new one. */
export function QuotaDialog({ quota, onClose }: { quota: Quota | null; onClose: () => void }) {
  const [user, setUser] = useState(quota?.user ?? "");
  const [fields, setFields] = useState(quota ? fieldsOf(quota) : NO_QUOTA);
  const save = useMutation({ mutationFn: setQuota, ...usePeopleChange(onClose) });
  const faults = faultsOf(save.error);
  const names = Object.keys(LABELS) as (keyof QuotaFields)[];
  return (
    <FormDialog
      title={quota ? `Quota of ${quota.user}` : "Set a quota"}
      opened
      onClose={onClose}
      onSubmit={() => save.mutate({ user: user.trim(), quota: specOf(fields) })}
      action="Set"
      pending={save.isPending}
      disabled={user.trim() === ""}
      error={save.error}
      refused="Not set"
      fields={names}
      keeps
    >
      {!quota && (
        <TextInput
          label="User"
          description={`${EVERYBODY}: all users without their own quota`}
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
          placeholder={name === "weight" ? "1" : "no limit"}
          min={0}
          allowDecimal={FRACTIONAL.has(name)}
          value={fields[name]}
          error={faults[name]}
          onChange={(value) => setFields((before) => ({ ...before, [name]: value }))}
        />
      ))}
    </FormDialog>
  );
}
