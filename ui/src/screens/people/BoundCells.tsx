import type { Group, Quota } from "../../api/types";
import { amount, count } from "../../format/number";
import { duration } from "../../format/time";
import { bounded } from "./quotas";

export const BOUND_COLUMNS = [
  "GPUs at once",
  "GPU-hours, 7 d",
  "Jobs waiting",
  "Jobs without GPUs",
  "Submissions per minute",
  "Highest priority",
  "Longest run time",
];

/** Table cells with a user's or group's limits and usage. */
export function BoundCells({ of }: { of: Quota | Group }) {
  return (
    <>
      <td>{bounded(of.used?.gpus, of.gpus, count)}</td>
      <td>{bounded(of.used?.gpu_hours, of.gpu_hours, amount)}</td>
      <td>{bounded(of.used?.waiting, of.waiting, count)}</td>
      <td>{bounded(of.used?.cpu_jobs, of.cpu_jobs, count)}</td>
      <td>{of.submissions ?? "–"}</td>
      <td>{of.priority ?? "–"}</td>
      <td>{of.max_duration === null ? "–" : duration(of.max_duration)}</td>
    </>
  );
}
