import type { Job, JobState } from "../api/types";
import type { IconName } from "../shell/Icon";

interface Look {
  icon: IconName;
  /** Colour group. States of the same tone differ by icon and word. */
  tone: "wait" | "move" | "run" | "good" | "bad" | "off";
}

export const LOOKS: Record<JobState, Look> = {
  queued: { icon: "clock", tone: "wait" },
  pulling: { icon: "download", tone: "move" },
  starting: { icon: "repeat", tone: "move" },
  running: { icon: "play", tone: "run" },
  resizing: { icon: "resize", tone: "move" },
  stopping: { icon: "square", tone: "wait" },
  succeeded: { icon: "check", tone: "good" },
  failed: { icon: "cross", tone: "bad" },
  cancelled: { icon: "cancel", tone: "off" },
  timeout: { icon: "clock", tone: "bad" },
};

/** Groups of states to filter by. */
export const GROUPS = {
  all: { name: "All", states: [] },
  waiting: { name: "Waiting", states: ["queued", "pulling"] },
  running: { name: "Running", states: ["starting", "running", "resizing", "stopping"] },
  succeeded: { name: "Succeeded", states: ["succeeded"] },
  failed: { name: "Failed", states: ["failed", "timeout"] },
  cancelled: { name: "Cancelled", states: ["cancelled"] },
} satisfies Record<string, { name: string; states: JobState[] }>;

export type JobGroup = keyof typeof GROUPS;

export const isGroup = (name: string | null): name is JobGroup =>
  name !== null && Object.hasOwn(GROUPS, name);

const ENDED: readonly JobState[] = ["succeeded", "failed", "cancelled", "timeout"];

export const isOver = (state: JobState) => ENDED.includes(state);

/** Whether cancelling still has an effect. */
export const canCancel = (state: JobState) => !isOver(state) && state !== "stopping";

const WILL_WAIT: readonly JobState[] = ["queued", "pulling", "resizing"];

/** How a job may be kept from running, or let run again. */
export type Holding = "hold" | "release" | "pause" | "resume";

/** Return what may be done to keep a job from running, or to let it run; null: nothing. */
export function holdingOf(job: Pick<Job, "state" | "held_at" | "elastic" | "attempt">): Holding | null {
  if (!canCancel(job.state)) return null;
  if (job.held_at !== null) return job.attempt > 0 ? "resume" : "release";
  if (WILL_WAIT.includes(job.state)) return "hold";
  return job.elastic ? "pause" : null;
}

/** Return the number of jobs in a group. `counts` are by state. */
export function groupCount(group: JobGroup, counts: Record<string, number>): number {
  const states: string[] = group === "all" ? Object.keys(counts) : GROUPS[group].states;
  return states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
}
