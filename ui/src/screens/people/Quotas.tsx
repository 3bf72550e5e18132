import { Button, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { removeQuota } from "../../api/commands";
import { quotasQuery } from "../../api/queries";
import type { Quota } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { amount, count } from "../../format/number";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { QuotaDialog } from "./QuotaDialog";
import { bounded, EVERYBODY } from "./quotas";
import { usePeopleChange } from "./usePeopleChange";

const COLUMNS = ["User", "GPUs at once", "GPU-hours, 7 d", "Jobs waiting", "Submissions a minute", "Weight"];

/** How much each user may have, and has. */
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
        They hold under every policy, beside those of groups. Running jobs are never stopped for one.
      </Text>
      <Loaded query={quotas} title="The quotas can't be read">
        {({ items }) =>
          items.length === 0 ? (
            <Text size="sm">None: everybody may have what is free.</Text>
          ) : (
            <DataTable columns={COLUMNS} actions>
              {items.map((quota) => (
                <tr key={quota.user}>
                  <td>{quota.user === EVERYBODY ? "all others (*)" : quota.user}</td>
                  <td>{bounded(quota.used?.gpus, quota.gpus, count)}</td>
                  <td>{bounded(quota.used?.gpu_hours, quota.gpu_hours, amount)}</td>
                  <td>{bounded(quota.used?.waiting, quota.waiting, count)}</td>
                  <td>{quota.submissions ?? "–"}</td>
                  <td>{quota.weight}</td>
                  <td className={panel.nowrap}>
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`Change the quota of ${quota.user}`}
                      onClick={() => setEditing(quota)}
                    >
                      Change
                    </Button>{" "}
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`Remove the quota of ${quota.user}`}
                      loading={remove.isPending && remove.variables === quota.user}
                      onClick={() => remove.mutate(quota.user)}
                    >
                      Remove
                    </Button>
                  </td>
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
