import { Button, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { removeGroup } from "../../api/commands";
import { groupsQuery } from "../../api/queries";
import type { Group } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { amount, count } from "../../format/number";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { GroupDialog } from "./GroupDialog";
import { bounded } from "./quotas";
import { usePeopleChange } from "./usePeopleChange";

const COLUMNS = ["Group", "Users", "GPUs at once", "GPU-hours, 7 d", "Jobs waiting", "Submissions a minute"];

/** How much the users of each group may have together, and have. */
export function Groups() {
  const groups = useQuery(groupsQuery);
  const [editing, setEditing] = useState<Group | "new" | null>(null);
  const remove = useMutation({
    mutationFn: removeGroup,
    onError: (error) => notifications.show({ color: "red", message: error.message }),
    ...usePeopleChange(() => {}),
  });
  return (
    <Panel
      title="Groups"
      action={
        <Button
          size="xs"
          variant="default"
          leftSection={<Icon name="plus" />}
          onClick={() => setEditing("new")}
        >
          Add a group
        </Button>
      }
    >
      <Text size="sm" c="dimmed" mb="sm">
        What the users of a group may have together; each one's own quota holds as well.
      </Text>
      <Loaded query={groups} title="The groups can't be read">
        {({ items }) =>
          items.length === 0 ? (
            <Text size="sm">None yet.</Text>
          ) : (
            <DataTable columns={COLUMNS} actions>
              {items.map((group) => (
                <tr key={group.name}>
                  <td>{group.name}</td>
                  <td>{group.members.join(", ") || "nobody"}</td>
                  <td>{bounded(group.used?.gpus, group.gpus, count)}</td>
                  <td>{bounded(group.used?.gpu_hours, group.gpu_hours, amount)}</td>
                  <td>{bounded(group.used?.waiting, group.waiting, count)}</td>
                  <td>{group.submissions ?? "–"}</td>
                  <td className={panel.nowrap}>
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`Change the group ${group.name}`}
                      onClick={() => setEditing(group)}
                    >
                      Change
                    </Button>{" "}
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`Remove the group ${group.name}`}
                      loading={remove.isPending && remove.variables === group.name}
                      onClick={() => remove.mutate(group.name)}
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
      {editing && <GroupDialog group={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
    </Panel>
  );
}
