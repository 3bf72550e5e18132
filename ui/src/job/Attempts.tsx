import { Text } from "@mantine/core";
import type { Task } from "../api/types";
import { Elapsed } from "../format/Elapsed";
import { size } from "../format/size";
import { Panel } from "./Panel";
import classes from "./Panel.module.css";

/** Every container that the job had, newest first. */
export function Attempts({ tasks }: { tasks: Task[] }) {
  return (
    <Panel title="Attempts">
      {tasks.length === 0 && (
        <Text size="sm" c="dimmed">
          None yet.
        </Text>
      )}
      {tasks.length > 0 && (
        <div className={classes.scroll}>
          <table className={classes.table}>
            <thead>
              <tr>
                <th>Attempt</th>
                <th>Host</th>
                <th>GPUs</th>
                <th>State</th>
                <th>Exit</th>
                <th>Peak memory</th>
                <th>Ran</th>
              </tr>
            </thead>
            <tbody>
              {tasks.toReversed().map((task) => (
                <tr key={task.id}>
                  <td>
                    {task.attempt}
                    {task.rank > 0 && ` (rank ${task.rank})`}
                  </td>
                  <td>{task.host}</td>
                  <td>{task.gpu_uuids.length}</td>
                  <td>
                    {task.outcome || task.state}
                    {task.error && (
                      <Text size="sm" c="dimmed">
                        {task.error}
                      </Text>
                    )}
                  </td>
                  <td>{task.exit_code ?? "–"}</td>
                  <td className={classes.nowrap}>
                    {task.memory_peak === null ? "–" : size(task.memory_peak)}
                  </td>
                  <td className={classes.nowrap}>
                    <Elapsed start={task.started_at} end={task.finished_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
