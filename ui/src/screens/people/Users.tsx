import { Button, NativeSelect, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { faultsOf } from "../../api/client";
import { addUser, removeUser, setDisabled, setRole } from "../../api/commands";
import { usersQuery } from "../../api/queries";
import type { Role, WhoAmI } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { FormDialog } from "../../components/FormDialog";
import { Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { When } from "../../format/Elapsed";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { AddToken } from "../../tokens/AddToken";
import { HostAccount } from "./HostAccount";
import { RemoveUser } from "./RemoveUser";
import { usePeopleChange } from "./usePeopleChange";

const ROLES: Role[] = ["metrics", "viewer", "user", "admin"];

/** Table of all users except the account that runs the service. */
export function Users({ me }: { me: WhoAmI }) {
  const users = useQuery(usersQuery);
  const [removing, setRemoving] = useState("");
  const told = (error: Error) => notifications.show({ color: "red", message: error.message });
  const change = useMutation({ mutationFn: setRole, onError: told, ...usePeopleChange(() => {}) });
  const disable = useMutation({ mutationFn: setDisabled, onError: told, ...usePeopleChange(() => {}) });
  const remove = useMutation({
    mutationFn: removeUser,
    onError: told,
    ...usePeopleChange(() => setRemoving("")),
  });
  return (
    <Panel title="Users" action={<AddUser />}>
      <Text size="sm" c="dimmed" mb="sm">
        Viewers read, users submit jobs and change their own, admins may do everything. Users sign in with
        tokens that you create for them, or as the settings of this service say.
      </Text>
      <Loaded query={users} title="The users can't be read">
        {({ items }) =>
          items.length === 0 ? (
            <Text size="sm">None yet: the account that runs the service is its admin.</Text>
          ) : (
            <DataTable columns={["Name", "Role", "Writes as", "Since"]} actions>
              {items.map(({ name, role, uid, gid, gids, created_at, disabled_by }) => (
                <tr key={name}>
                  <td>
                    <Link to={`/jobs?user=${encodeURIComponent(name)}`}>{name}</Link>
                    {disabled_by && (
                      <Text size="xs" c="dimmed">
                        {disabled_by === "admin" ? "disabled" : "disabled by the rules of sign-in"}
                      </Text>
                    )}
                  </td>
                  <td>
                    <NativeSelect
                      size="xs"
                      aria-label={`Role of ${name}`}
                      data={ROLES}
                      value={role}
                      onChange={(event) => change.mutate({ name, role: event.currentTarget.value as Role })}
                    />
                  </td>
                  <td className={panel.nowrap}>
                    <HostAccount name={name} uid={uid} gid={gid} gids={gids} />
                  </td>
                  <td className={panel.nowrap}>
                    <When at={created_at} />
                  </td>
                  <td className={panel.nowrap}>
                    <AddToken me={me} owner={name} />{" "}
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`${disabled_by ? "Enable" : "Disable"} ${name}`}
                      onClick={() => disable.mutate({ name, disabled: !disabled_by })}
                    >
                      {disabled_by ? "Enable" : "Disable"}
                    </Button>{" "}
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`Remove ${name}`}
                      onClick={() => setRemoving(name)}
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
      {removing !== "" && (
        <RemoveUser
          name={removing}
          pending={remove.isPending}
          onConfirm={(left) => remove.mutate({ name: removing, left })}
          onClose={() => setRemoving("")}
        />
      )}
    </Panel>
  );
}

function AddUser() {
  const [opened, setOpened] = useState(false);
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("user");
  const add = useMutation({
    mutationFn: addUser,
    ...usePeopleChange(() => {
      setOpened(false);
      setName("");
    }),
  });
  return (
    <>
      <Button size="xs" variant="default" leftSection={<Icon name="plus" />} onClick={() => setOpened(true)}>
        Add a user
      </Button>
      <FormDialog
        title="Add a user"
        opened={opened}
        onClose={() => setOpened(false)}
        onSubmit={() => add.mutate({ name: name.trim(), role })}
        action="Add"
        pending={add.isPending}
        disabled={name.trim() === ""}
        error={add.error}
        refused="Not added"
        fields={["name"]}
      >
        <TextInput
          label="Name"
          description="They own all jobs whose user has this name"
          data-autofocus
          value={name}
          error={faultsOf(add.error).name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <NativeSelect
          label="Role"
          mt="sm"
          data={ROLES}
          value={role}
          onChange={(event) => setRole(event.currentTarget.value as Role)}
        />
      </FormDialog>
    </>
  );
}
