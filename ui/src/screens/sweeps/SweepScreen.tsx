import { Group, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearchParams } from "react-router";
import type { SweepDetail } from "../../api/types";
import { Code } from "../../shell/code";
import { Loaded } from "../../shell/Loaded";
import { Loading } from "../../shell/Loading";
import { Part } from "../../shell/Part";
import { Screen } from "../../shell/Screen";
import { useSetAddress } from "../../shell/useAddress";
import { sweepQuery } from "../../sweeps/queries";
import { shownCounts, shownKind, shownValue } from "../../sweeps/runs";
import { SweepBadge } from "../../sweeps/SweepBadge";
import { goalOf, Runs } from "./Runs";
import { SweepActions } from "./SweepActions";

const SearchView = new Code("search", () => import("./search/SearchView")).Component;
const ExperimentView = new Code("analysis", () => import("./experiment/ExperimentView")).Component;

export default function SweepScreen() {
  const { id = "" } = useParams();
  const [address] = useSearchParams();
  const sweep = useQuery(sweepQuery(id, address.get("metric") ?? "", goalOf(address)));
  const { data } = sweep;
  return (
    <Screen title={data?.name ?? "Sweep"} actions={data && <SweepActions sweep={data} />}>
      <Loaded query={sweep} title="The sweep can't be read">
        {(found) => (
          <>
            <Now sweep={found} />
            <View sweep={found} />
          </>
        )}
      </Loaded>
    </Screen>
  );
}

/** Kind, state and progress of the sweep. */
function Now({ sweep }: { sweep: SweepDetail }) {
  return (
    <>
      <Group gap="sm" mb="xs">
        <SweepBadge state={sweep.state} />
        <Text size="sm">{sweep.message}</Text>
      </Group>
      <Text size="sm" c="dimmed" mb="md">
        {shownKind(sweep) !== "sweep" && `${capital(shownKind(sweep))}. `}
        {shownCounts(sweep)}
        {sweep.best &&
          `. Best: run ${sweep.best.number}, ${sweep.metric.name} ${shownValue(sweep.best.best)}`}
      </Text>
    </>
  );
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function View({ sweep }: { sweep: SweepDetail }) {
  if (sweep.design === null) return <Runs sweep={sweep} />;
  if (sweep.design === "search")
    return (
      <Part what="part" fallback={<Loading />}>
        <SearchView sweep={sweep} />
      </Part>
    );
  return <ExperimentTabs sweep={sweep} />;
}

function ExperimentTabs({ sweep }: { sweep: SweepDetail }) {
  const [address] = useSearchParams();
  const set = useSetAddress();
  const tab = address.get("tab") === "runs" ? "runs" : "results";
  return (
    <Tabs value={tab} onChange={(next) => set("tab", next === "runs" ? "runs" : null)} keepMounted={false}>
      <Tabs.List mb="md">
        <Tabs.Tab value="results">Results</Tabs.Tab>
        <Tabs.Tab value="runs">Runs</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="results">
        <Part what="part" fallback={<Loading />}>
          <ExperimentView id={sweep.id} />
        </Part>
      </Tabs.Panel>
      <Tabs.Panel value="runs">
        <Runs sweep={sweep} />
      </Tabs.Panel>
    </Tabs>
  );
}
