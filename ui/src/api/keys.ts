/** The first word of each query's key; live events name by it what they make stale. */
export const keys = {
  jobs: "jobs",
  job: "job",
  jobEvents: "job-events",
  hosts: "hosts",
  policy: "policy",
} as const;
