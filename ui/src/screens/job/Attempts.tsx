import { Text } from "@mantine/core";
import type { Task } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import classes from "../../components/Panel.module.css";
import { Elapsed } from "../../format/Elapsed";
import { size } from "../../format/size";

/** Table of all containers of the job, newest first. */
export function Attempts({ tasks }: { tasks: Task[] }) {
  return (
    <Panel title="Attempts">
      {tasks.length === 0 ? (
        <Text size="sm" c="dimmed">
          None yet.
        </Text>
      ) : (
        <DataTable columns={["Attempt", "Host", "GPUs", "State", "Exit", "Peak memory", "Ran"]}>
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
              <td className={classes.nowrap}>{task.memory_peak === null ? "–" : size(task.memory_peak)}</td>
              <td className={classes.nowrap}>
                <Elapsed start={task.started_at} end={task.finished_at} />
              </td>
            </tr>
          ))}
        </DataTable>
      )}
    </Panel>
  );
}
