import { Anchor, SegmentedControl, Text, useMantineColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import {
  dataSetsQuery,
  healthQuery,
  notifyQuery,
  registriesQuery,
  tokensQuery,
  webhooksQuery,
  whoQuery,
} from "../../api/queries";
import type { WhoAmI } from "../../api/types";
import { Fact, Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { whyNot } from "../../may/may";
import { KeyList } from "../../shell/KeyList";
import { Loaded, Together } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { DataSets } from "./DataSets";
import { Notices } from "./Notices";
import { Registries } from "./Registries";
import classes from "./SettingsScreen.module.css";
import { Tokens } from "./Tokens";
import { Webhooks } from "./Webhooks";

/** Settings screen. It has settings to change, settings made at the start of the service, and keyboard shortcuts. */
export default function SettingsScreen() {
  const who = useQuery(whoQuery);
  return (
    <Screen title="Settings">
      <Loaded query={who} title="Your account can't be read">
        {(me) => <Panels me={me} />}
      </Loaded>
    </Screen>
  );
}

function Panels({ me }: { me: WhoAmI }) {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const { data: health } = useQuery(healthQuery);
  const webhooks = whyNot(me, "manage_webhooks") === null;
  const notices = whyNot(me, "submit") === null;
  const tokens = whyNot(me, "manage_tokens") === null;
  return (
    <Together
      queries={[
        ...(webhooks ? [webhooksQuery] : []),
        ...(notices ? [notifyQuery, registriesQuery] : []),
        ...(tokens ? [tokensQuery] : []),
        dataSetsQuery,
      ]}
    >
      <div className={classes.grid}>
        {tokens && (
          <div className={classes.wide}>
            <Tokens me={me} />
          </div>
        )}
        {notices && (
          <div className={classes.wide}>
            <Notices />
          </div>
        )}
        {notices && (
          <div className={classes.wide}>
            <Registries me={me} />
          </div>
        )}
        {webhooks && (
          <div className={classes.wide}>
            <Webhooks />
          </div>
        )}
        <DataSets />
        <Panel title="This page">
          <Text size="sm" mb={6}>
            Colors
          </Text>
          <SegmentedControl
            aria-label="Colors"
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
            The operator sets all other settings, including the service's own token, in a YAML file, by
            environment or by flag. <code className="mono">schedulearn serve --help</code> lists them. Add
            hosts <Link to="/hosts">here</Link>, choose the policy <Link to="/policy">here</Link>.
          </Text>
        </Panel>
        <Panel title="Keys">
          <KeyList />
        </Panel>
      </div>
    </Together>
  );
}
