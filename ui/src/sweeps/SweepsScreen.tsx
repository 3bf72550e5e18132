import { Code, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Sweep } from "../api/types";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import classes from "../usage/UsageTable.module.css";
import { sweepsQuery } from "./queries";
import { shownCounts } from "./runs";
import { SweepBadge } from "./SweepBadge";

export default function SweepsScreen() {
  const { data, error, refetch } = useQuery(sweepsQuery);
  return (
    <Screen title="Sweeps">
      {error && <ErrorNotice title="The sweeps can't be read" error={error} retry={refetch} />}
      {!data && !error && <Loading />}
      {data?.items.length === 0 && (
        <Text c="dimmed">
          A sweep tries one job with many parameters. Start one with <Code>schedulearn sweep FILE</Code>.
        </Text>
      )}
      {data && data.items.length > 0 && <SweepsTable sweeps={data.items} />}
      {data?.next && (
        <Text size="sm" c="dimmed" mt="sm">
          The newest {data.items.length}. There are older ones.
        </Text>
      )}
    </Screen>
  );
}

function SweepsTable({ sweeps }: { sweeps: Sweep[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: whatever scrolls must be reachable by keyboard.
    <section className={`card ${classes.frame}`} tabIndex={0} aria-label="Sweeps">
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">name</th>
            <th scope="col">state</th>
            <th scope="col">runs</th>
            <th scope="col">parameters</th>
            <th scope="col">user</th>
          </tr>
        </thead>
        <tbody>
          {sweeps.map((sweep) => (
            <tr key={sweep.id}>
              <td>
                <Link to={`/sweeps/${sweep.id}`}>{sweep.name}</Link>
              </td>
              <td>
                <SweepBadge state={sweep.state} />
              </td>
              <td>{shownCounts(sweep)}</td>
              <td>{sweep.parameters.join(", ")}</td>
              <td>{sweep.user}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
