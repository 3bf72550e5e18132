import type { UsageChoice } from "../api/queries";
import type { Usage } from "../api/types";
import { amount, count } from "../format/number";
import classes from "./UsageTable.module.css";

interface Props {
  rows: Usage[];
  by: UsageChoice["by"];
  priced: boolean;
}

/** Days in their order, everything else by how much was used; a bar shows the share of the largest. */
export function UsageTable({ rows, by, priced }: Props) {
  const sorted = by.includes("day")
    ? rows.toSorted((a, b) => b.day.localeCompare(a.day) || b.gpu_hours - a.gpu_hours)
    : rows.toSorted((a, b) => b.gpu_hours - a.gpu_hours);
  const most = Math.max(...rows.map((row) => row.gpu_hours), 1e-9);
  const total = (key: "gpu_hours" | "energy_kwh" | "cost") => rows.reduce((sum, row) => sum + row[key], 0);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: whatever scrolls must be reachable by keyboard.
    <section className={`card ${classes.frame}`} tabIndex={0} aria-label="Usage">
      <table className={classes.table}>
        <thead>
          <tr>
            {by.map((key) => (
              <th key={key} scope="col">
                {key}
              </th>
            ))}
            <th scope="col">GPU-hours</th>
            <th scope="col">energy</th>
            {priced && <th scope="col">cost</th>}
            <th scope="col">jobs</th>
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <tr key={`${row.day} ${row.user} ${row.label}`}>
              {by.map((key) => (
                <td key={key}>{row[key] || <span className={classes.none}>none</span>}</td>
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
              <td>{amount(row.energy_kwh)} kWh</td>
              {priced && <td>{amount(row.cost)}</td>}
              <td>{count(row.jobs)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colSpan={by.length}>
              Together
            </th>
            <td>{amount(total("gpu_hours"))}</td>
            <td>{amount(total("energy_kwh"))} kWh</td>
            {priced && <td>{amount(total("cost"))}</td>}
            <td />
          </tr>
        </tfoot>
      </table>
    </section>
  );
}
