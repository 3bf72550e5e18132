import { Anchor, SegmentedControl, Text, useMantineColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { dataSetsQuery, healthQuery, tokensQuery, webhooksQuery } from "../../api/queries";
import { Fact, Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { KeyList } from "../../shell/KeyList";
import { Together } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { DataSets } from "./DataSets";
import classes from "./SettingsScreen.module.css";
import { Tokens } from "./Tokens";
import { Webhooks } from "./Webhooks";

/** What can be set here, what is set where the service is started, and the keys. */
export default function SettingsScreen() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const { data: health } = useQuery(healthQuery);
  return (
    <Screen title="Settings">
      <Together queries={[webhooksQuery, tokensQuery, dataSetsQuery]}>
        <div className={classes.grid}>
          <div className={classes.wide}>
            <Webhooks />
          </div>
          <div className={classes.wide}>
            <Tokens />
          </div>
          <DataSets />
          <Panel title="This page">
            <Text size="sm" mb={6}>
              Colours
            </Text>
            <SegmentedControl
              aria-label="Colours"
              value={colorScheme}
              onChange={(value) => setColorScheme(value as "auto" | "light" | "dark")}
              data={[
                { value: "auto", label: "as the system" },
                { value: "light", label: "light" },
                { value: "dark", label: "dark" },
              ]}
            />
          </Panel>
          <Panel title="The service">
            <dl className={panel.facts}>
              <Fact name="Version">{health?.version ?? "–"}</Fact>
              <Fact name="Address">{window.location.origin}</Fact>
              <Fact name="For programs">
                <Anchor fz="inherit" href="/api/v1/openapi.json">
                  OpenAPI document
                </Anchor>
              </Fact>
              <Fact name="For Prometheus">
                <Anchor fz="inherit" href="/metrics">
                  /metrics
                </Anchor>
              </Fact>
            </dl>
            <Text size="sm" c="dimmed" mt="sm">
              Everything else, its own token included, is set where the service is started: in its YAML file,
              by environment or by flag. <code className="mono">schedulearn serve --help</code> names them
              all. Hosts are added <Link to="/hosts">here</Link>, the policy is chosen{" "}
              <Link to="/policy">here</Link>.
            </Text>
          </Panel>
          <Panel title="Keys">
            <KeyList />
          </Panel>
        </div>
      </Together>
    </Screen>
  );
}
