import { useQuery } from "@tanstack/react-query";
import { runningNamesQuery, watchedHostsQuery } from "../api/queries";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import { HostCard } from "./HostCard";

export default function HostsScreen() {
  const { data: hosts, error, refetch } = useQuery(watchedHostsQuery);
  const { data: names } = useQuery(runningNamesQuery);
  return (
    <Screen title="Hosts">
      {error && <ErrorNotice title="The hosts can't be read" error={error} retry={refetch} />}
      {!hosts && !error && <Loading />}
      {hosts?.length === 0 && <p>No host yet.</p>}
      {hosts?.map((host) => (
        <HostCard key={host.id} host={host} names={names ?? {}} />
      ))}
    </Screen>
  );
}
