import { Code, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Sweep } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { sweepsQuery } from "../../sweeps/queries";
import { shownCounts, shownKind } from "../../sweeps/runs";
import { SweepBadge } from "../../sweeps/SweepBadge";
import { StartSearch } from "./search/StartSearch";

export default function SweepsScreen() {
  const sweeps = useQuery(sweepsQuery);
  return (
    <Screen title="Sweeps" actions={<StartSearch />}>
      <Loaded query={sweeps} title="The sweeps can't be read">
        {({ items, next }) =>
          items.length === 0 ? (
            <Text c="dimmed">
              A sweep runs one job with many parameters: start one with <Code>schedulearn sweep FILE</Code>.{" "}
              <Code>schedulearn experiment FILE</Code> measures the effects of its factors, and{" "}
              <Code>schedulearn search FILE</Code> finds its best size.
            </Text>
          ) : (
            <>
              <SweepsTable sweeps={items} />
              {next && (
                <Text size="sm" c="dimmed" mt="sm">
                  The newest {items.length}. Older ones are not shown.
                </Text>
              )}
            </>
          )
        }
      </Loaded>
    </Screen>
  );
}

function SweepsTable({ sweeps }: { sweeps: Sweep[] }) {
  return (
    <DataTable label="Sweeps" columns={["name", "what", "state", "runs", "parameters", "user"]}>
      {sweeps.map((sweep) => (
        <tr key={sweep.id}>
          <td>
            <Link to={`/sweeps/${sweep.id}`}>{sweep.name}</Link>
          </td>
          <td>{shownKind(sweep)}</td>
          <td>
            <SweepBadge state={sweep.state} />
          </td>
          <td>{shownCounts(sweep)}</td>
          <td>{sweep.parameters.join(", ")}</td>
          <td>{sweep.user}</td>
        </tr>
      ))}
    </DataTable>
  );
}
