import { Button, Group, Menu } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { setCordon } from "../../api/commands";
import type { Host } from "../../api/types";
import { tellWithUndo } from "../../components/tellWithUndo";
import { GuardedButton } from "../../may/GuardedButton";
import { GuardedItem } from "../../may/GuardedItem";
import { useWhyNot } from "../../may/useMay";
import { DrainDialog, RemoveDialog } from "./HostDialogs";
import { useAfterChange } from "./useAfterChange";

/** Actions for a host. Those that move or end jobs ask for confirmation. */
export function HostActions({ host }: { host: Host }) {
  const [asking, setAsking] = useState<"drain" | "remove" | null>(null);
  const whyNot = useWhyNot("change_hosts");
  const cordon = useMutation({
    mutationFn: setCordon,
    onSuccess: (_, { id, cordoned }) =>
      tellWithUndo(cordoned ? `${id} takes no new jobs.` : `${id} takes jobs again.`, () =>
        cordon.mutate({ id, cordoned: !cordoned }),
      ),
    ...useAfterChange(),
  });
  const open = host.state === "active";
  return (
    <>
      <Group gap={8}>
        <GuardedButton
          whyNot={whyNot}
          size="xs"
          variant="default"
          loading={cordon.isPending}
          onClick={() => cordon.mutate({ id: host.id, cordoned: open })}
        >
          {open ? "Cordon" : "Uncordon"}
        </GuardedButton>
        {host.state !== "draining" && (
          <GuardedButton whyNot={whyNot} size="xs" variant="default" onClick={() => setAsking("drain")}>
            Drain
          </GuardedButton>
        )}
        {host.origin === "api" && (
          <Menu position="bottom-end">
            <Menu.Target>
              <Button size="xs" variant="default" aria-label={`More for ${host.id}`}>
                …
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              <GuardedItem whyNot={whyNot} color="red" onClick={() => setAsking("remove")}>
                Remove
              </GuardedItem>
            </Menu.Dropdown>
          </Menu>
        )}
      </Group>
      {asking === "drain" && <DrainDialog host={host} onClose={() => setAsking(null)} />}
      {asking === "remove" && <RemoveDialog host={host} onClose={() => setAsking(null)} />}
    </>
  );
}
