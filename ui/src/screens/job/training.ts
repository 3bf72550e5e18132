import type { JobDetail, Profile, ServiceEvent } from "../../api/types";

export interface Resize {
  at: string;
  why: string;
}

/** Return the GPUs held over time (epoch s), one step per change. The value is 0 between attempts. While the job
 * runs, the last step ends at `now` (ms). */
export function allocationOf(tasks: JobDetail["tasks"], now: number): [number[], number[]] {
  const changes = new Map<number, number>();
  const add = (at: number, gpus: number) => changes.set(at, (changes.get(at) ?? 0) + gpus);
  for (const task of tasks) {
    add(Date.parse(task.created_at) / 1000, task.gpu_uuids.length);
    if (task.finished_at !== null) add(Date.parse(task.finished_at) / 1000, -task.gpu_uuids.length);
  }
  const times = [...changes.keys()].toSorted((a, b) => a - b);
  let held = 0;
  const gpus = times.map((at) => {
    held += changes.get(at) ?? 0;
    return held;
  });
  if (held > 0) {
    times.push(now / 1000);
    gpus.push(held);
  }
  return [times, gpus];
}

/** Return the resize decisions, oldest first. */
export function resizesOf(events: readonly ServiceEvent[]): Resize[] {
  return events
    .filter((event) => event.kind === "job.resizing")
    .map((event) => ({ at: event.at, why: event.message }));
}

interface StepTime {
  gpus: number;
  nodes: number;
  batch: number;
  /** Seconds of a micro-step: the gradient, and the additional synchronization. */
  compute: number;
  sync: number;
  /** Samples per second of the whole job. */
  throughput: number;
}

/** Return the most measured micro-step of each allocation, fewest GPUs first. */
export function stepTimesOf(observations: Profile["observations"]): StepTime[] {
  const best = new Map<string, Profile["observations"][number]>();
  for (const seen of observations) {
    const key = `${seen.num_gpus} ${seen.num_nodes}`;
    const before = best.get(key);
    if (
      !before ||
      seen.passes > before.passes ||
      (seen.passes === before.passes && seen.atomic_batch > before.atomic_batch)
    )
      best.set(key, seen);
  }
  return [...best.values()]
    .map((seen) => ({
      gpus: seen.num_gpus,
      nodes: seen.num_nodes,
      batch: seen.atomic_batch,
      compute: Math.min(seen.grad_time, seen.iter_time),
      sync: Math.max(0, seen.iter_time - seen.grad_time),
      throughput: (seen.atomic_batch * seen.num_gpus) / seen.iter_time,
    }))
    .toSorted((a, b) => a.gpus - b.gpus || a.nodes - b.nodes);
}

/** Return predicted throughput and goodput, and the best measured throughput. The first column is the number of
 * GPUs. */
export function scalingOf(
  profile: Profile,
): [number[], (number | null)[], (number | null)[], (number | null)[]] {
  const measured = new Map<number, number>();
  for (const { num_gpus, atomic_batch, iter_time } of profile.observations) {
    const throughput = (atomic_batch * num_gpus) / iter_time;
    measured.set(num_gpus, Math.max(measured.get(num_gpus) ?? 0, throughput));
  }
  const { predictions } = profile;
  return [
    predictions.map((each) => each.num_gpus),
    predictions.map((each) => each.throughput),
    predictions.map((each) => each.goodput),
    predictions.map((each) => measured.get(each.num_gpus) ?? null),
  ];
}

/** Return the progress from 0 to 1, as reported or as read from the log; null if unknown. */
export function progressOf({ progress, logged_progress: logged }: Profile): number | null {
  if (!progress?.epochs) return logged?.fraction ?? null;
  const within = progress.epoch_samples > 0 ? progress.position / progress.epoch_samples : 0;
  return Math.min(1, (progress.epoch + within) / progress.epochs);
}

/** Return the progress as a sentence, with its source if that is the log. */
export function progressText(profile: Profile, share: number): string {
  const { progress, logged_progress: logged } = profile;
  const percent = `${Math.floor(share * 100)}%`;
  if (progress?.epochs)
    return `epoch ${Math.min(progress.epoch + 1, progress.epochs)} of ${progress.epochs}, ${percent}`;
  if (!logged) return percent;
  const place =
    logged.epochs > 1
      ? `epoch ${Math.min(logged.epoch + 1, logged.epochs)} of ${logged.epochs}`
      : `step ${logged.position} of ${logged.epoch_steps}`;
  return `${place}, ${percent}, read from the log`;
}
