import { Switch, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { jobQuery, profileQuery } from "../../api/queries";
import { Chart } from "../../chart/Chart";
import { CurveControls, useCurveChoice } from "../../chart/CurveControls";
import { curvesOf, MOST_CURVES, metricsOf, X_NAMES } from "../../chart/curves";
import { ChartGroup } from "../../chart/group";
import { Panel } from "../../components/Panel";
import { LoadedSome } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import classes from "./CompareScreen.module.css";
import { type Compared, comparedOf, outcomesOf, type Row, specRows } from "./compare";

/** Comparison of some jobs: their results, curves and specifications. */
export default function CompareScreen() {
  const [address] = useSearchParams();
  const ids = [...new Set((address.get("jobs") ?? "").split(",").filter(Boolean))].slice(0, MOST_CURVES);
  const jobs = useQueries({ queries: ids.map((id) => jobQuery(id)) });
  const profiles = useQueries({ queries: ids.map((id) => profileQuery(id, false)) });
  return (
    <Screen title="Compare jobs">
      {ids.length < 2 ? (
        <Text>
          Select 2 to {MOST_CURVES} jobs in <Link to="/jobs">the list</Link>, then compare them.
        </Text>
      ) : (
        <LoadedSome queries={jobs} title="Some of these jobs can't be read">
          {(found) => (
            <LoadedSome queries={profiles} title="Some of their reports can't be read">
              {(reports) => <Comparison compared={comparedOf(found, reports)} />}
            </LoadedSome>
          )}
        </LoadedSome>
      )}
    </Screen>
  );
}

function Comparison({ compared }: { compared: Compared[] }) {
  const [all, setAll] = useState(false);
  const names = compared.map(({ job }) => `${job.name} (${job.id})`);
  const profiles = compared.map(({ profile }) => profile);
  const { axis, smoothing } = useCurveChoice(profiles);
  const metrics = metricsOf(profiles);
  const specs = specRows(compared.map(({ job }) => job));
  return (
    <div className={classes.stack}>
      <Panel title="Results">
        <Table compared={compared} rows={outcomesOf(compared)} />
      </Panel>
      {metrics.length > 0 && <CurveControls profiles={profiles} />}
      <ChartGroup>
        <div className={classes.charts}>
          {metrics.map((metric) => (
            <Chart
              key={metric}
              title={metric}
              label={`${metric} of ${names.join(", ")} by ${axis}`}
              data={curvesOf(profiles, metric, axis)}
              xName={X_NAMES[axis]}
              series={names.map((name) => ({ name, joined: true }))}
              smoothing={smoothing}
              fromZero={false}
              height={240}
            />
          ))}
        </div>
      </ChartGroup>
      <Panel
        title="Specifications"
        action={<Switch size="xs" label="Show equal values" checked={all} onChange={() => setAll(!all)} />}
      >
        <Table compared={compared} rows={specs.filter((row) => all || row.differs)} />
      </Panel>
    </div>
  );
}

function Table({ compared, rows }: { compared: Compared[]; rows: Row[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard.
    <section className={classes.scroll} tabIndex={0} aria-label="Comparison">
      <table className={classes.table}>
        <thead>
          <tr>
            <td />
            {compared.map(({ job }) => (
              <th key={job.id} scope="col">
                <Link to={`/jobs/${job.id}`}>{job.name}</Link> <span className="mono">{job.id}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, values, differs }) => (
            <tr key={name} data-differs={differs}>
              <th scope="row">{name}</th>
              {values.map((value, at) => (
                <td key={compared[at]?.job.id}>{value}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && (
        <Text size="sm" c="dimmed">
          No differences.
        </Text>
      )}
    </section>
  );
}
