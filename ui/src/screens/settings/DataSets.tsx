import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { dataSetsQuery } from "../../api/queries";
import { Fact, Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { Loaded } from "../../shell/Loaded";

/** Folders of the hosts that jobs may read. */
export function DataSets() {
  const found = useQuery(dataSetsQuery);
  return (
    <Panel title="Data sets">
      <Text size="sm" c="dimmed" mb="sm">
        Folders of the hosts that jobs may read with <code className="mono">mounts</code>. The operator
        declares them: setting <code className="mono">data_sets</code>.
      </Text>
      <Loaded query={found} title="The data sets can't be read">
        {(data) =>
          data.length === 0 ? (
            <Text size="sm">None yet.</Text>
          ) : (
            <dl className={panel.facts}>
              {data.map(({ name, path }) => (
                <Fact key={name} name={name}>
                  <code className="mono">{path}</code>
                </Fact>
              ))}
            </dl>
          )
        }
      </Loaded>
    </Panel>
  );
}
