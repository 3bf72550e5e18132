import { Button, Group, Modal, NativeSelect, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { faultsOf } from "../api/client";
import { addToken } from "../api/commands";
import { keys } from "../api/keys";
import { usersQuery } from "../api/queries";
import type { NewToken, Role, WhoAmI } from "../api/types";
import { FormDialog } from "../components/FormDialog";
import { When } from "../format/Elapsed";
import { whyNot } from "../may/may";
import { CopyButton } from "../shell/CopyButton";
import { Icon } from "../shell/Icon";
import classes from "./AddToken.module.css";
import { ENDS, type Ends, rolesUpTo, shellLine, usualRole } from "./tokens";

interface Props {
  me: WhoAmI;
  /** Owner of the token, if known before. Otherwise the form asks for the owner. */
  owner?: string;
}

/** Button that creates a token and shows it once. */
export function AddToken({ me, owner }: Props) {
  const [opened, setOpened] = useState(false);
  const close = () => setOpened(false);
  return (
    <>
      <Button
        size="xs"
        variant="default"
        leftSection={owner === undefined && <Icon name="plus" />}
        aria-label={owner && `Create token for ${owner}`}
        onClick={() => setOpened(true)}
      >
        {owner === undefined ? "Create a token" : "Create token"}
      </Button>
      {opened && <TokenDialog me={me} first={owner ?? me.name} onClose={close} />}
    </>
  );
}

/** Form for a token. `first` is the owner selected at first. */
function TokenDialog({ me, first, onClose }: { me: WhoAmI; first: string; onClose: () => void }) {
  const forOthers = whyNot(me, "manage_people") === null;
  const { data: users } = useQuery({ ...usersQuery, enabled: forOthers });
  const [owner, setOwner] = useState(first);
  const [name, setName] = useState("");
  const [asked, setAsked] = useState<Role | null>(null);
  const [ends, setEnds] = useState<Ends>("90");
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: addToken,
    gcTime: 0, // the token is not stored here either
    onSettled: () => queries.invalidateQueries({ queryKey: [keys.tokens] }),
  });
  if (add.data) return <Shown token={add.data} onClose={onClose} />;

  const others = (users?.items ?? []).filter((user) => user.name !== me.name);
  const most = owner === me.name ? me.role : (others.find((user) => user.name === owner)?.role ?? "viewer");
  const roles = rolesUpTo(most);
  const role = asked !== null && roles.includes(asked) ? asked : usualRole(most);
  const faults = faultsOf(add.error);
  const send = () =>
    add.mutate({
      name: name.trim(),
      role,
      expires_in_days: ends === "" ? null : Number(ends),
      ...(owner !== me.name && { user: owner }),
    });
  return (
    <FormDialog
      title="Create a token"
      opened
      onClose={onClose}
      onSubmit={send}
      action="Create"
      pending={add.isPending}
      disabled={name.trim() === "" || (owner !== me.name && users === undefined)}
      error={add.error}
      refused="Not created"
      fields={["name", "user", "role", "expires_in_days"]}
    >
      <TextInput
        label="Name"
        description="Purpose, to tell it from others"
        placeholder={`${owner}'s laptop`}
        data-autofocus
        value={name}
        error={faults.name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      {forOthers && (
        <NativeSelect
          label="Owner"
          description="They own jobs sent with it. Removing the user revokes it"
          mt="sm"
          data={[
            { value: me.name, label: `${me.name} (you)` },
            ...others.map((user) => ({ value: user.name, label: user.name })),
          ]}
          value={owner}
          error={faults.user}
          onChange={(event) => setOwner(event.currentTarget.value)}
        />
      )}
      <NativeSelect
        label="Role"
        description={`${owner === me.name ? "You are" : `${owner} is`} ${most} here: it has at most these rights`}
        mt="sm"
        data={roles}
        value={role}
        error={faults.role}
        onChange={(event) => setAsked(event.currentTarget.value as Role)}
      />
      <NativeSelect
        label="Expires after"
        mt="sm"
        data={Object.entries(ENDS).map(([value, label]) => ({ value, label }))}
        value={ends}
        error={faults.expires_in_days}
        onChange={(event) => setEnds(event.currentTarget.value as Ends)}
      />
    </FormDialog>
  );
}

function Shown({ token, onClose }: { token: NewToken; onClose: () => void }) {
  const line = shellLine(token, window.location.origin);
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Token ${token.name}`}
      centered
      size="lg"
      closeOnClickOutside={false}
    >
      <Text size="sm" mb="sm">
        Copy it now: it is shown only once. It is {token.owner}'s, as {token.role}, until{" "}
        {token.expires_at ? <When at={token.expires_at} /> : "it is revoked"}.
      </Text>
      <code className={classes.secret} data-testid="token">
        {token.token}
      </code>
      <Text size="sm" mt="md" mb={6}>
        For the command line, give {token.owner} this line. The sign-in page at {window.location.origin}/ui/
        accepts it, too.
      </Text>
      <code className={classes.secret} data-testid="line">
        {line}
      </code>
      <Group justify="flex-end" mt="lg">
        <CopyButton text={token.token} label="Copy the token" />
        <CopyButton text={line} label="Copy the line" />
        <Button size="xs" onClick={onClose}>
          Done
        </Button>
      </Group>
    </Modal>
  );
}
