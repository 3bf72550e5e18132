import { Button, Group, NativeSelect, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { approveLogin, refuseLogin } from "../../api/commands";
import { loginQuery } from "../../api/queries";
import type { AskedLogin, Role } from "../../api/types";
import { Fact, Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { When } from "../../format/Elapsed";
import { ErrorNotice } from "../../shell/ErrorNotice";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import classes from "./LoginScreen.module.css";

/** Screen that approves the login of a command line. The address has its code. */
export default function LoginScreen() {
  const [params] = useSearchParams();
  const code = params.get("code");
  return (
    <Screen title="Log in a command line">{code ? <Asked key={code} code={code} /> : <AskCode />}</Screen>
  );
}

function AskCode() {
  const [, setParams] = useSearchParams();
  const [code, setCode] = useState("");
  return (
    <form
      className={classes.narrow}
      onSubmit={(event) => {
        event.preventDefault();
        setParams({ code: code.trim() });
      }}
    >
      <TextInput
        label="Code"
        description="The command schedulearn login shows it"
        value={code}
        maxLength={40}
        onChange={(event) => setCode(event.currentTarget.value)}
      />
      <Button type="submit" size="xs" mt="sm" disabled={code.trim() === ""}>
        Continue
      </Button>
    </form>
  );
}

function Asked({ code }: { code: string }) {
  const query = useQuery(loginQuery(code));
  return (
    <Loaded query={query} title="The login can't be read">
      {(asked) => <Decision asked={asked} />}
    </Loaded>
  );
}

const DONE = {
  approved: "Approved. The command line continues by itself; you can close this page.",
  refused: "Refused. The command line ends without a token.",
} as const;

function Decision({ asked }: { asked: AskedLogin }) {
  const [role, setRole] = useState<Role>(asked.role);
  const approve = useMutation({ mutationFn: () => approveLogin(asked.code, role) });
  const refuse = useMutation({ mutationFn: () => refuseLogin(asked.code) });
  const state = (approve.data ?? refuse.data ?? asked).state;
  const error = approve.error ?? refuse.error;
  if (state !== "waiting") {
    return (
      <Text role="status" size="sm">
        {DONE[state]}
      </Text>
    );
  }
  return (
    <div className={classes.narrow}>
      <Panel title="A command line asks for a token of yours">
        <p className={classes.code}>{asked.code}</p>
        <Text size="sm" mb="md">
          Approve it only if you have just started this login, and your terminal shows the same code. Whoever
          has the token can do here what you can, up to its role.
        </Text>
        <dl className={panel.facts}>
          <Fact name="Machine">{asked.host || "not given"}</Fact>
          <Fact name="Account there">{asked.account || "not given"}</Fact>
          <Fact name="Address">{asked.address || "unknown"}</Fact>
          <Fact name="Asked">
            <When at={asked.asked_at} />
          </Fact>
        </dl>
        <NativeSelect
          label="Role"
          description="It has at most these rights"
          mt="md"
          data={asked.roles}
          value={role}
          onChange={(event) => setRole(event.currentTarget.value as Role)}
        />
        {error && (
          <div className={classes.error}>
            <ErrorNotice title="Not done" error={error} />
          </div>
        )}
        <Group mt="md">
          <Button size="xs" loading={approve.isPending} onClick={() => approve.mutate()}>
            Approve
          </Button>
          <Button size="xs" variant="default" loading={refuse.isPending} onClick={() => refuse.mutate()}>
            Refuse
          </Button>
        </Group>
      </Panel>
    </div>
  );
}
