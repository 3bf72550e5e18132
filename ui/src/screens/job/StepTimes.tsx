import type { Profile } from "../../api/types";
import { Panel } from "../../components/Panel";
import { plural } from "../../format/number";
import classes from "./Training.module.css";
import { stepTimesOf } from "./training";

const milliseconds = (seconds: number) => `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;

/** Micro-step times of each measured allocation, split into gradient and synchronization. */
export function StepTimes({ profile }: { profile: Profile }) {
  const rows = stepTimesOf(profile.observations);
  const most = Math.max(...rows.map((row) => row.compute + row.sync), 1e-9);
  return (
    <Panel title="Step time by part">
      {rows.length === 0 && <p className={classes.note}>No measurements yet.</p>}
      {rows.length > 0 && (
        <table className={classes.steps}>
          <thead>
            <tr>
              <th scope="col">GPUs</th>
              <th scope="col">
                <span className={classes.key} data-part="compute" /> compute{" "}
                <span className={classes.key} data-part="sync" /> synchronisation
              </th>
              <th scope="col">batch</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={`${row.gpus} ${row.nodes}`}>
                <th scope="row">
                  {row.gpus}
                  {row.nodes > 1 && ` on ${plural(row.nodes, "host")}`}
                </th>
                <td>
                  <span className={classes.step}>
                    <span data-part="compute" style={{ width: `${(row.compute / most) * 100}%` }} />
                    <span data-part="sync" style={{ width: `${(row.sync / most) * 100}%` }} />
                  </span>
                  <span className={classes.note}>
                    {milliseconds(row.compute)} + {milliseconds(row.sync)}
                  </span>
                </td>
                <td>{row.batch}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
