import { Button, Group, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { removeRegistryLogin } from "../../api/commands";
import { keys } from "../../api/keys";
import { registriesQuery } from "../../api/queries";
import type { RegistryLogin, WhoAmI } from "../../api/types";
import { Panel } from "../../components/Panel";
import { useListChange } from "../../components/useListChange";
import { Ago } from "../../format/Elapsed";
import { Confirm } from "../../shell/Confirm";
import { Loaded } from "../../shell/Loaded";
import { AddRegistryLogin } from "./AddRegistryLogin";
import classes from "./SettingsScreen.module.css";

/** Logins to registries of images, which hosts pull with. */
export function Registries({ me }: { me: WhoAmI }) {
  const logins = useQuery(registriesQuery);
  return (
    <Panel title="Registry logins" action={<AddRegistryLogin me={me} />}>
      <Text size="sm" c="dimmed" mb="sm">
        Hosts pull private images with these. Your own login comes before that of your group, and that before
        everybody&apos;s.
      </Text>
      <Loaded query={logins} title="The registry logins can't be read">
        {({ items }) =>
          items.length === 0 ? (
            <Text size="sm">None yet. Images of open registries need none.</Text>
          ) : (
            <ul className={classes.hooks} aria-label="Registry logins">
              {items.map((item) => (
                <Row key={`${item.registry} ${item.user} ${item.group}`} item={item} me={me} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Row({ item, me }: { item: RegistryLogin; me: WhoAmI }) {
  const [removing, setRemoving] = useState(false);
  const removal = useMutation({
    mutationFn: removeRegistryLogin,
    ...useListChange(keys.registries, () => setRemoving(false)),
  });
  const whose = item.user !== "" ? item.user : item.group !== "" ? `group ${item.group}` : "everybody";
  const mine = item.user !== "" ? item.user === me.name : me.role === "admin";
  return (
    <li className={classes.hook} data-testid={`registry-${item.registry}`}>
      <div className={classes.about}>
        <div className={classes.url}>{item.registry}</div>
        <div className={classes.facts}>
          {`as ${item.username} · for ${whose} · changed `}
          <Ago at={item.changed_at} />
        </div>
      </div>
      {mine && (
        <Group gap={8} wrap="nowrap">
          <Button
            size="xs"
            variant="default"
            aria-label={`Log out of ${item.registry}`}
            onClick={() => setRemoving(true)}
          >
            Log out
          </Button>
        </Group>
      )}
      {removing && (
        <Confirm
          title="Remove this login?"
          action="Remove the login"
          pending={removal.isPending}
          onConfirm={() => removal.mutate(item)}
          onClose={() => setRemoving(false)}
        >
          Images that were pulled with it need another login from now on.
        </Confirm>
      )}
    </li>
  );
}
