/** The first word of each query's key; live events name by it what they make stale. */
export const keys = {
  jobs: "jobs",
  job: "job",
  jobEvents: "job-events",
  jobFiles: "job-files",
  hosts: "hosts",
  cluster: "cluster",
  policy: "policy",
  policyHistory: "policy-history",
  timeline: "timeline",
  usage: "usage",
  events: "events",
  telemetry: "telemetry",
  utility: "utility",
  webhooks: "webhooks",
  tokens: "tokens",
  dataSets: "data-sets",
} as const;
