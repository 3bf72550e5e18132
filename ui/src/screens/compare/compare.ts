import type { JobDetail, Profile } from "../../api/types";
import { metricsOf } from "../../chart/curves";
import { amount, energy, money, plainNumber } from "../../format/number";
import { duration } from "../../format/time";
import { specOf } from "../../jobs/values";

export interface Compared {
  job: JobDetail;
  profile: Profile | undefined;
}

/** Return the jobs that were found, each with its reported profile. */
export const comparedOf = (
  jobs: readonly (JobDetail | undefined)[],
  profiles: readonly (Profile | undefined)[],
): Compared[] => jobs.flatMap((job, at) => (job ? [{ job, profile: profiles[at] }] : []));

export interface Row {
  name: string;
  /** One value per job. */
  values: string[];
  /** Whether the jobs differ in this row. */
  differs: boolean;
}

const rowOf = (name: string, values: string[]): Row => ({ name, values, differs: new Set(values).size > 1 });

/** Return rows of the jobs' results. */
export function outcomesOf(compared: readonly Compared[]): Row[] {
  const metrics = metricsOf(compared.map(({ profile }) => profile));
  return [
    rowOf(
      "State",
      compared.map(({ job }) => job.state),
    ),
    rowOf(
      "Run time",
      compared.map(({ job }) => duration(job.run_seconds)),
    ),
    rowOf(
      "GPU-hours",
      compared.map(({ job }) => amount(job.gpu_seconds / 3600)),
    ),
    rowOf(
      "Energy",
      compared.map(({ job }) => energy(job.energy_kwh)),
    ),
    rowOf(
      "Cost",
      compared.map(({ job }) => money(job.cost, job.currency)),
    ),
    rowOf(
      "Restarts",
      compared.map(({ job }) => String(job.restarts)),
    ),
    ...metrics.map((metric) =>
      rowOf(
        `Last ${metric}`,
        compared.map(({ profile }) => {
          const last = profile?.metrics[metric]?.at(-1)?.[1];
          return last == null ? "–" : plainNumber(last);
        }),
      ),
    ),
  ];
}

/** Return rows of the jobs' specifications, one per key. Maps have a row for each of their keys. */
export function specRows(jobs: readonly JobDetail[]): Row[] {
  const specs = jobs.map((job) => flat(specOf(job)));
  const names = [...new Set(specs.flatMap((spec) => [...spec.keys()]))];
  return names.map((name) =>
    rowOf(
      name,
      specs.map((spec) => spec.get(name) ?? "–"),
    ),
  );
}

function flat(spec: object): Map<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of Object.entries(spec)) {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      for (const [key, each] of Object.entries(value)) found.set(`${name}.${key}`, String(each));
    } else if (value !== undefined && value !== null) {
      found.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
    }
  }
  return found;
}
