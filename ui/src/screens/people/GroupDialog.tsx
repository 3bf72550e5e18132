import { NumberInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../../api/client";
import { setGroup } from "../../api/commands";
import type { Bounds, Group } from "../../api/types";
import { FormDialog } from "../../components/FormDialog";
import {
  BOUND_LABELS,
  boundFieldsOf,
  boundsOf,
  FRACTIONAL,
  guaranteeIn,
  guaranteeText,
  NO_BOUNDS,
  namesIn,
} from "./quotas";
import { usePeopleChange } from "./usePeopleChange";

/** Form for a group. `group` is the group to change; null: a new one. */
export function GroupDialog({ group, onClose }: { group: Group | null; onClose: () => void }) {
  const [name, setName] = useState(group?.name ?? "");
  const [users, setUsers] = useState(group?.members.join(", ") ?? "");
  const [typed, setTyped] = useState(group ? guaranteeText(group.guarantee) : "");
  const guarantee = guaranteeIn(typed);
  const [fields, setFields] = useState(group ? boundFieldsOf(group) : NO_BOUNDS);
  const save = useMutation({ mutationFn: setGroup, ...usePeopleChange(onClose) });
  const faults = faultsOf(save.error);
  const bounds = Object.keys(BOUND_LABELS) as (keyof Bounds)[];
  return (
    <FormDialog
      title={group ? `Group ${group.name}` : "Add a group"}
      opened
      onClose={onClose}
      onSubmit={() =>
        save.mutate({
          name: name.trim(),
          bounds: boundsOf(fields),
          guarantee: guarantee ?? {},
          members: namesIn(users),
          before: group?.members ?? [],
        })
      }
      action="Set"
      pending={save.isPending}
      disabled={name.trim() === "" || guarantee === null}
      error={save.error}
      refused="Not set"
      fields={["name", "guarantee", ...bounds]}
      keeps
    >
      {!group && (
        <TextInput
          label="Name"
          data-autofocus
          value={name}
          error={faults.name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      )}
      <TextInput
        mt={group ? undefined : "sm"}
        label="Users"
        description="Separated by commas. Members of other groups leave those."
        value={users}
        onChange={(event) => setUsers(event.currentTarget.value)}
      />
      <TextInput
        mt="sm"
        label="Guaranteed GPUs"
        description="A number, or numbers by type such as 8, a100=4. Unused ones are lent to others."
        placeholder="none"
        value={typed}
        error={guarantee === null ? "Use numbers of GPUs such as 8, a100=4." : faults.guarantee}
        onChange={(event) => setTyped(event.currentTarget.value)}
      />
      {bounds.map((bound) => (
        <NumberInput
          key={bound}
          mt="sm"
          label={BOUND_LABELS[bound]}
          placeholder="no limit"
          min={0}
          allowDecimal={FRACTIONAL.has(bound)}
          value={fields[bound]}
          error={faults[bound]}
          onChange={(value) => setFields((before) => ({ ...before, [bound]: value }))}
        />
      ))}
    </FormDialog>
  );
}
