import { Button, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { removeQuota } from "../../api/commands";
import { quotasQuery } from "../../api/queries";
import type { Quota } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { BOUND_COLUMNS, BoundCells } from "./BoundCells";
import { ChangeOrRemove } from "./ChangeOrRemove";
import { QuotaDialog } from "./QuotaDialog";
import { EVERYBODY } from "./quotas";
import { usePeopleChange } from "./usePeopleChange";

const COLUMNS = ["User", ...BOUND_COLUMNS, "Weight"];

/** Table of the users' quotas and usage. */
export function Quotas() {
  const quotas = useQuery(quotasQuery);
  const [editing, setEditing] = useState<Quota | "new" | null>(null);
  const remove = useMutation({
    mutationFn: removeQuota,
    onError: (error) => notifications.show({ color: "red", message: error.message }),
    ...usePeopleChange(() => {}),
  });
  return (
    <Panel
      title="Quotas"
      action={
        <Button
          size="xs"
          variant="default"
          leftSection={<Icon name="plus" />}
          onClick={() => setEditing("new")}
        >
          Set a quota
        </Button>
      }
    >
      <Text size="sm" c="dimmed" mb="sm">
        They apply with every policy, in addition to those of groups. Running jobs are never stopped for a
        quota.
      </Text>
      <Loaded query={quotas} title="The quotas can't be read">
        {({ items }) =>
          items.length === 0 ? (
            <Text size="sm">None: all users may use all free GPUs.</Text>
          ) : (
            <DataTable columns={COLUMNS} actions>
              {items.map((quota) => (
                <tr key={quota.user}>
                  <td>{quota.user === EVERYBODY ? "all others (*)" : quota.user}</td>
                  <BoundCells of={quota} />
                  <td>{quota.weight}</td>
                  <ChangeOrRemove
                    what={`the quota of ${quota.user}`}
                    removing={remove.isPending && remove.variables === quota.user}
                    onChange={() => setEditing(quota)}
                    onRemove={() => remove.mutate(quota.user)}
                  />
                </tr>
              ))}
            </DataTable>
          )
        }
      </Loaded>
      {editing && <QuotaDialog quota={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
    </Panel>
  );
}
