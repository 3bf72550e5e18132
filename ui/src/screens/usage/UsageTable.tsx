import { Text } from "@mantine/core";
import type { Usage } from "../../api/types";
import type { UsageChoice } from "../../api/usageQueries";
import { DataTable } from "../../components/DataTable";
import { amount, count, energy, money } from "../../format/number";
import { costOf, energyOf } from "./bars";
import classes from "./UsageScreen.module.css";

/** Maximum rows shown. Nobody reads more, and the CSV file has all of them. */
const MOST_ROWS = 500;

/** Usage table. Days are in order, other rows sorted by usage. A bar shows the share of the largest row. */
export function UsageTable({ rows, by }: { rows: Usage[]; by: UsageChoice["by"] }) {
  const sorted = by.includes("day")
    ? rows.toSorted((a, b) => b.day.localeCompare(a.day) || b.gpu_hours - a.gpu_hours)
    : rows.toSorted((a, b) => b.gpu_hours - a.gpu_hours);
  const most = Math.max(...rows.map((row) => row.gpu_hours), 1e-9);
  const hours = rows.reduce((sum, row) => sum + row.gpu_hours, 0);
  const priced = rows.some((row) => row.cost !== null);
  const currency = rows[0]?.currency ?? "";
  const names = [...by, "GPU-hours", "energy", ...(priced ? ["cost"] : []), "jobs"];
  const foot = (
    <tr>
      <th scope="row" colSpan={by.length}>
        Together
      </th>
      <td>{amount(hours)}</td>
      <td>{energy(energyOf(rows))}</td>
      {priced && <td>{money(costOf(rows), currency)}</td>}
      <td />
    </tr>
  );
  return (
    <div>
      <DataTable label="Usage" columns={names} foot={foot}>
        {sorted.slice(0, MOST_ROWS).map((row) => (
          <tr key={`${row.day} ${row.user} ${row.label}`}>
            {by.map((key) => (
              <td key={key}>
                {row[key] ? (
                  <span className={key === "day" ? undefined : classes.name}>{row[key]}</span>
                ) : (
                  <span className={classes.none}>none</span>
                )}
              </td>
            ))}
            <td>
              <span className={classes.hours}>
                <span
                  className={classes.bar}
                  style={{ width: `${(row.gpu_hours / most) * 100}%` }}
                  aria-hidden
                />
                <span className={classes.value}>{amount(row.gpu_hours)}</span>
              </span>
            </td>
            <td>{energy(row.energy_kwh)}</td>
            {priced && <td>{money(row.cost, currency)}</td>}
            <td>{count(row.jobs)}</td>
          </tr>
        ))}
      </DataTable>
      {rows.length > MOST_ROWS && (
        <Text size="sm" c="dimmed" mt="sm">
          The first {count(MOST_ROWS)} of {count(rows.length)} rows. The CSV has all.
        </Text>
      )}
    </div>
  );
}
