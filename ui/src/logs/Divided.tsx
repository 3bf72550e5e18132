import type { Task } from "../api/types";
import { clock } from "../format/clock";
import { plural } from "../format/number";
import { dayOf, when } from "../format/time";
import classes from "./LogView.module.css";
import type { Divider } from "./times";

/** Divider between the lines of two attempts, or of two days. */
export function Divided({ divider, tasks }: { divider: Divider; tasks: readonly Task[] }) {
  return (
    <span className={classes.divider} data-testid="log-divider" data-kind={divider.kind}>
      {divider.kind === "day" ? dayOf(new Date(divider.second * 1000)) : nameOf(divider, tasks)}
    </span>
  );
}

/** Name an attempt: "Attempt 2, 19 Nov 14:02, 4 GPUs on daphne". */
function nameOf({ attempt, rank, second }: Divider, tasks: readonly Task[]): string {
  const together = tasks.filter((task) => task.attempt === attempt);
  const task = together.find((one) => one.rank === rank);
  const began = task?.started_at ?? (second > 0 ? second * 1000 : null);
  const gpus = task && task.gpu_uuids.length > 0 ? `${plural(task.gpu_uuids.length, "GPU")} ` : "";
  return [
    `Attempt ${attempt}`,
    together.length > 1 && `rank ${rank}`,
    began !== null && when(began, clock.now()),
    task && `${gpus}on ${task.host}`,
  ]
    .filter(Boolean)
    .join(", ");
}
