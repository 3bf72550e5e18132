import { Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useEffect, useState } from "react";
import { useLocation } from "react-router";
import { runningNamesQuery, watchedHostsQuery } from "../api/queries";
import type { Host } from "../api/types";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Icon } from "../shell/Icon";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import { AddHost } from "./AddHost";
import { HostCard } from "./HostCard";
import classes from "./HostCard.module.css";

const NO_NAMES = {};
const MANY = 8;

export default function HostsScreen() {
  const { data: hosts, error, refetch } = useQuery(watchedHostsQuery);
  const { data: names } = useQuery(runningNamesQuery);
  const [text, setText] = useState("");
  const { hash } = useLocation();
  const there = hosts !== undefined;
  useEffect(() => {
    if (there && hash) document.getElementById(decodeURIComponent(hash.slice(1)))?.scrollIntoView();
  }, [there, hash]);
  const wanted = text.trim().toLowerCase();
  const shown = hosts?.filter((host) => host.id.toLowerCase().includes(wanted));
  return (
    <Screen title="Hosts" actions={<AddHost />}>
      {error && <ErrorNotice title="The hosts can't be read" error={error} retry={refetch} />}
      {!hosts && !error && <Loading />}
      {hosts?.length === 0 && <Text>No host yet. Add the address of a Docker Engine.</Text>}
      {hosts && hosts.length > MANY && (
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
      {shown && <HostList hosts={shown} names={names ?? NO_NAMES} />}
    </Screen>
  );
}

/** The first hosts at once, the others as there is time: a hundred of them must not hold up a frame. */
function HostList({ hosts, names }: { hosts: Host[]; names: Record<string, string> }) {
  const ready = useDeferredValue(hosts, hosts.slice(0, MANY));
  return (
    <div className={classes.hosts}>
      {ready.map((host) => (
        <HostCard key={host.id} host={host} names={names} />
      ))}
    </div>
  );
}
