import { Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation } from "react-router";
import { runningNamesQuery, watchedHostsQuery } from "../api/queries";
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
      <div className={classes.hosts}>
        {shown?.map((host) => (
          <HostCard key={host.id} host={host} names={names ?? NO_NAMES} />
        ))}
      </div>
    </Screen>
  );
}
