import { Button, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { removeGroup } from "../../api/commands";
import { groupsQuery } from "../../api/queries";
import type { Group } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { BOUND_COLUMNS, BoundCells } from "./BoundCells";
import { ChangeOrRemove } from "./ChangeOrRemove";
import { GroupDialog } from "./GroupDialog";
import { guaranteeText } from "./quotas";
import { usePeopleChange } from "./usePeopleChange";

const COLUMNS = ["Group", "Users", "Guaranteed GPUs", "Borrowed GPUs", ...BOUND_COLUMNS];

/** Table of groups: the joint limits of their users, and the usage. */
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
        Limits for all users of a group together; each user's own quota applies as well. Guaranteed GPUs that
        a group does not use are lent to others until it needs them.
      </Text>
      <Loaded query={groups} title="The groups can't be read">
        {({ items, problem }) =>
          items.length === 0 ? (
            <Text size="sm">None yet.</Text>
          ) : (
            <>
              {problem && (
                <Text size="sm" mb="sm" role="alert">
                  {problem}
                </Text>
              )}
              <DataTable columns={COLUMNS} actions>
                {items.map((group) => (
                  <tr key={group.name}>
                    <td>{group.name}</td>
                    <td>{group.members.join(", ") || "none"}</td>
                    <td>{guaranteeText(group.guarantee) || "–"}</td>
                    <td>{group.borrowed ?? "–"}</td>
                    <BoundCells of={group} />
                    <ChangeOrRemove
                      what={`the group ${group.name}`}
                      removing={remove.isPending && remove.variables === group.name}
                      onChange={() => setEditing(group)}
                      onRemove={() => remove.mutate(group.name)}
                    />
                  </tr>
                ))}
              </DataTable>
            </>
          )
        }
      </Loaded>
      {editing && <GroupDialog group={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
    </Panel>
  );
}
