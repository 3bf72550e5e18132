import { Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useDeferredValue, useEffect, useState } from "react";
import { useLocation, useSearchParams } from "react-router";
import { runningNamesQuery, watchedHostsQuery } from "../../api/queries";
import type { Host } from "../../api/types";
import { shareColors } from "../../format/color";
import { Maintenance } from "../../maintenance/Maintenance";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { AddHost } from "./AddHost";
import { HostCard } from "./HostCard";
import classes from "./HostCard.module.css";

const NO_NAMES = {};
const MANY = 8;

export default function HostsScreen() {
  const query = useQuery(watchedHostsQuery);
  const hosts = query.data;
  const { data: names } = useQuery(runningNamesQuery);
  const [text, setText] = useState("");
  const { hash } = useLocation();
  const [address, setAddress] = useSearchParams();
  const open = address.get("history");
  const toggle = useCallback(
    (host: string) =>
      setAddress(
        (before) => {
          if (before.get("history") === host) before.delete("history");
          else before.set("history", host);
          return before;
        },
        { replace: true },
      ),
    [setAddress],
  );
  const there = hosts !== undefined;
  useEffect(() => {
    if (there && hash) document.getElementById(decodeURIComponent(hash.slice(1)))?.scrollIntoView();
  }, [there, hash]);
  const wanted = text.trim().toLowerCase();
  const shown = hosts?.filter((host) => host.id.toLowerCase().includes(wanted));
  return (
    <Screen title="Hosts" actions={<AddHost />}>
      <Loaded query={query} title="The hosts can't be read">
        {(found) => (
          <>
            {found.length === 0 && <Text>No host yet. Add the address of a Docker Engine.</Text>}
            {found.length > MANY && (
              <TextInput
                mb="md"
                maw={320}
                aria-label="Name contains"
                placeholder="Name"
                leftSection={<Icon name="search" />}
                value={text}
                onChange={(event) => setText(event.currentTarget.value)}
              />
            )}
            <Maintenance />
            {shown?.length === 0 && found.length !== 0 && <Text>No host name contains this text.</Text>}
            {shown && <HostList hosts={shown} names={names ?? NO_NAMES} open={open} onToggle={toggle} />}
          </>
        )}
      </Loaded>
    </Screen>
  );
}

interface ListProps {
  hosts: Host[];
  names: Record<string, string>;
  /** Host whose history is shown. */
  open: string | null;
  onToggle: (host: string) => void;
}

/** Draw the first hosts at once, the others when there is time. A hundred hosts must not delay a frame. */
function HostList({ hosts, names, open, onToggle }: ListProps) {
  shareColors(hosts.flatMap((host) => host.gpus.flatMap((gpu) => gpu.jobs)));
  const ready = useDeferredValue(hosts, hosts.slice(0, MANY));
  return (
    <div className={classes.hosts}>
      {ready.map((host) => (
        <HostCard key={host.id} host={host} names={names} open={host.id === open} onToggle={onToggle} />
      ))}
    </div>
  );
}
