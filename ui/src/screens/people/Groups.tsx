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
import { usePeopleChange } from "./usePeopleChange";

const COLUMNS = ["Group", "Users", ...BOUND_COLUMNS];

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
        Limits for all users of a group together; each user's own quota applies as well.
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
                  <td>{group.members.join(", ") || "none"}</td>
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
          )
        }
      </Loaded>
      {editing && <GroupDialog group={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
    </Panel>
  );
}
