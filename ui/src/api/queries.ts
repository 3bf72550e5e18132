import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { clock } from "../format/clock";
import type { JobsFilter } from "../jobs/filters";
import { client, problemToError, unwrap } from "./client";
import { fileAddress } from "./fileKind";
import { keys } from "./keys";
import { sharedById } from "./sharing";
import type { Job, JobState } from "./types";

/** Refetch interval for data that changes without an event. Only such data is refetched: why a job waits, and how
 * busy a GPU is. */
const UNANNOUNCED_MS = 5_000;

/** Approximate interval of new predictions of when running jobs end. No event announces them. */
const PREDICTED_MS = 10_000;

/** Refetch interval for data that changes with time and without an event. */
const A_MINUTE_MS = 60_000;

const HOLDERS: JobState[] = ["starting", "running", "resizing", "stopping"];

/** Jobs per page. Lists of more than `LIVE_PAGES` pages are not updated, because every page would be fetched again. */
const PAGE = 100;
/** Maximum search text that the service accepts, and number of results. */
const MOST_TEXT = 200;
const FOUND = 6;
export const LIVE_PAGES = 5;

export function jobsQuery(filter: JobsFilter) {
  const { states, text, user, label, host, endedSince, endedUntil, sort } = filter;
  return infiniteQueryOptions({
    queryKey: [keys.jobs, filter],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/jobs", {
          params: {
            query: {
              state: states,
              q: text || undefined,
              user: user || undefined,
              label: label ? [label] : undefined,
              host: host || undefined,
              ended_since: endedSince === null ? undefined : new Date(endedSince).toISOString(),
              ended_until: endedUntil === null ? undefined : new Date(endedUntil).toISOString(),
              sort: sort || undefined,
              cursor: pageParam ?? undefined,
              limit: PAGE,
            },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next ?? null,
    placeholderData: (before) => before,
    structuralSharing: sharedById,
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.items.some(isQueued)) ? UNANNOUNCED_MS : false,
  });
}

export function jobQuery(id: string) {
  return queryOptions({
    queryKey: [keys.job, id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    refetchInterval: ({ state }) => {
      if (!state.data || state.data.finished_at !== null) return false;
      return isQueued(state.data) ? UNANNOUNCED_MS : PREDICTED_MS;
    },
  });
}

/** Name of a job that another job's sentence mentions. A name never changes. */
export function jobNameQuery(id: string) {
  return queryOptions({
    queryKey: ["job-name", id],
    queryFn: async ({ signal }) => {
      const call = client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal });
      return (await unwrap(call)).name;
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
}

/** First jobs of the queue in queue order, as many as shown. */
export const queueQuery = queryOptions({
  queryKey: [keys.jobs, "queue"],
  queryFn: ({ signal }) =>
    unwrap(
      client.GET("/api/v1/jobs", {
        params: { query: { state: ["queued", "pulling"], order: "oldest", limit: 8 } },
        signal,
      }),
    ),
  refetchInterval: ({ state }) => (state.data?.items.length ? UNANNOUNCED_MS : false),
});

/** Newest jobs whose name or id contains the text. An empty text matches all jobs. */
export function findJobsQuery(text: string) {
  return queryOptions({
    queryKey: [keys.jobs, "find", text],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs", {
          params: { query: { q: text.slice(0, MOST_TEXT) || undefined, limit: FOUND } },
          signal,
        }),
      ),
    placeholderData: (before) => before,
  });
}

/** Ids of waiting jobs, longest wait first. The limit is the largest queue position shown. */
export const waitingQuery = queryOptions({
  queryKey: [keys.jobs, "waiting"],
  queryFn: ({ signal }) =>
    unwrap(
      client.GET("/api/v1/jobs", {
        params: { query: { state: ["queued", "pulling"], order: "oldest", limit: 200 } },
        signal,
      }),
    ),
  select: (page) => page.items.map((job) => job.id),
});

/** Reported profile of a job. Reports cause no event, and a finished job sends none. */
export function profileQuery(id: string, running: boolean) {
  return queryOptions({
    queryKey: [keys.job, id, "profile"],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}/profile", { params: { path: { job_id: id } }, signal })),
    refetchInterval: running ? UNANNOUNCED_MS : false,
  });
}

export function jobEventsQuery(id: string) {
  return queryOptions({
    queryKey: [keys.jobEvents, id],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/events", {
          params: { path: { job_id: id }, query: { limit: 1000 } },
          signal,
        }),
      ),
  });
}

/** Entries of a folder of a job's files. The request reaches the hosts, so only a button repeats it. */
export function filesQuery(id: string, path: string) {
  return queryOptions({
    queryKey: [keys.jobFiles, id, path],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/files", {
          params: { path: { job_id: id }, query: { path } },
          signal,
        }),
      ),
  });
}

/** First 64 KiB of a file. `bytes` is its size, so that a file that grew is read again. */
export function fileTextQuery(id: string, path: string, bytes: number) {
  return queryOptions({
    queryKey: [keys.jobFiles, id, path, bytes],
    queryFn: async ({ signal }) => {
      if (bytes === 0) return new Uint8Array();
      const answer = await fetch(fileAddress(id, path), { signal, headers: { range: "bytes=0-65535" } });
      if (!answer.ok) throw problemToError(answer.status, await answer.json().catch(() => null));
      return new Uint8Array(await answer.arrayBuffer());
    },
  });
}

export const hostsQuery = queryOptions({
  queryKey: [keys.hosts],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/hosts", { signal })),
});

/** Hosts, for screens that show how busy GPUs are. */
export const watchedHostsQuery = queryOptions({ ...hostsQuery, refetchInterval: UNANNOUNCED_MS });

/** Names by id of the jobs that hold GPUs. A GPU states only ids. */
export const runningNamesQuery = queryOptions({
  queryKey: [keys.jobs, "names"],
  queryFn: ({ signal }) =>
    unwrap(client.GET("/api/v1/jobs", { params: { query: { state: HOLDERS, limit: 1000 } }, signal })),
  select: (page) => Object.fromEntries(page.items.map((job) => [job.id, job.name])),
});

/** Jobs that hold GPUs. */
export const holdersQuery = queryOptions({ ...runningNamesQuery, select: (page) => page.items });

export const clusterQuery = queryOptions({
  queryKey: [keys.cluster],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/cluster", { signal })),
});

const ago = (seconds: number) => new Date(clock.now() - seconds * 1000).toISOString();

/** GPU allocations between two times (epoch ms). `until` null means now. */
export function timelineQuery(since: number, until: number | null) {
  return queryOptions({
    queryKey: [keys.timeline, String(since), String(until)],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/timeline", {
          params: {
            query: {
              since: new Date(since).toISOString(),
              until: until === null ? undefined : new Date(until).toISOString(),
              limit: 20_000,
            },
          },
          signal,
        }),
      ),
    placeholderData: (before) => before,
    structuralSharing: false,
  });
}

/** Number of predictions to fetch. It exceeds the jobs drawn, so that a filter's matches are among them. */
const EXPECTED = 500;

/** Predicted starts and ends of running and waiting jobs. No event announces a new prediction. */
export const expectedQuery = queryOptions({
  queryKey: [keys.timeline, "expected"],
  queryFn: ({ signal }) =>
    unwrap(client.GET("/api/v1/timeline/expected", { params: { query: { limit: EXPECTED } }, signal })),
  refetchInterval: PREDICTED_MS,
});

/** GPU allocations over the last `seconds` before each fetch. */
export function recentTimelineQuery(seconds: number) {
  return queryOptions({
    queryKey: [keys.timeline, "last", String(seconds)],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/timeline", { params: { query: { since: ago(seconds), limit: 20_000 } }, signal }),
      ),
    refetchInterval: A_MINUTE_MS,
    placeholderData: (before) => before,
    structuralSharing: false,
  });
}

/** Refetch interval for GPU readings. They are taken every second, and no event announces them. */
const MEASURED_MS = 10_000;

/** Telemetry of a host's GPUs over the last `seconds`. */
export function hostTelemetryQuery(id: string, seconds: number) {
  return queryOptions({
    queryKey: [keys.telemetry, "host", id, String(seconds)],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/hosts/{host_id}/telemetry", {
          params: { path: { host_id: id }, query: { from: ago(seconds) } },
          signal,
        }),
      ),
    refetchInterval: seconds <= 600 ? MEASURED_MS : A_MINUTE_MS,
    placeholderData: (before) => before,
    structuralSharing: false,
  });
}

/** Telemetry of a job's GPUs while it held them. */
export function jobTelemetryQuery(id: string, running: boolean) {
  return queryOptions({
    queryKey: [keys.telemetry, "job", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}/telemetry", { params: { path: { job_id: id } }, signal })),
    refetchInterval: running ? MEASURED_MS : false,
    structuralSharing: false,
  });
}

/** The cluster's utility over the last `seconds`, stored per minute. */
export function utilityQuery(seconds: number) {
  return queryOptions({
    queryKey: [keys.utility, String(seconds)],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/cluster/utility", { params: { query: { from: ago(seconds) } }, signal })),
    refetchInterval: A_MINUTE_MS,
    placeholderData: (before) => before,
  });
}

/** Webhooks. No event announces the results of deliveries. */
export const webhooksQuery = queryOptions({
  queryKey: [keys.webhooks],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/webhooks", { signal })),
  refetchInterval: ({ state }) => (state.data?.items.length ? MEASURED_MS : false),
});

/** One's own addresses for notices. No event announces the results of deliveries. */
export const notifyQuery = queryOptions({
  queryKey: [keys.notify],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/notify", { signal })),
  refetchInterval: ({ state }) => (state.data?.items.length ? MEASURED_MS : false),
});

/** Registry logins that one's own jobs may use. */
export const registriesQuery = queryOptions({
  queryKey: [keys.registries],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/registries", { signal })),
});

/** Notices about a job, newest first. No event announces the results of deliveries. */
export function jobNoticesQuery(id: string) {
  return queryOptions({
    queryKey: [keys.notices, id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}/notices", { params: { path: { job_id: id } }, signal })),
    refetchInterval: MEASURED_MS,
  });
}

export const tokensQuery = queryOptions({
  queryKey: [keys.tokens],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/tokens", { signal })),
});

/** Identity and quota of the current user. */
export const whoQuery = queryOptions({
  queryKey: [keys.who],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/whoami", { signal })),
  staleTime: A_MINUTE_MS,
});

/** Failed jobs of the last week by cause. An empty user means everybody's. */
export function failuresQuery(user: string) {
  return queryOptions({
    queryKey: [keys.failures, user],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/failures", { params: { query: user ? { user } : {} }, signal })),
  });
}

export const usersQuery = queryOptions({
  queryKey: [keys.users],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/users", { signal })),
});

/** Quotas. No event announces their usage. */
export const quotasQuery = queryOptions({
  queryKey: [keys.quotas],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/quotas", { signal })),
  refetchInterval: MEASURED_MS,
});

export const groupsQuery = queryOptions({
  queryKey: [keys.groups],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/groups", { signal })),
  refetchInterval: MEASURED_MS,
});

/** Data sets. The service's settings define them, so they don't change while it runs. */
export const dataSetsQuery = queryOptions({
  queryKey: [keys.dataSets],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/data-sets", { signal })),
  staleTime: Number.POSITIVE_INFINITY,
});

interface EventsFilter {
  text: string;
  /** Prefix of the event kind; empty: all kinds. */
  kind: string;
  job: string;
  host: string;
  actor: string;
}

export function eventsQuery({ text, kind, job, host, actor }: EventsFilter) {
  return infiniteQueryOptions({
    queryKey: [keys.events, text, kind, job, host, actor],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/events:search", {
          params: {
            query: {
              q: text || undefined,
              kind: kind ? [kind] : undefined,
              job: job || undefined,
              host: host || undefined,
              actor: actor || undefined,
              before: pageParam ?? undefined,
              limit: 100,
            },
          },
          signal,
        }),
      ),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next_before,
    placeholderData: (before) => before,
    structuralSharing: sharedById,
  });
}

export const healthQuery = queryOptions({
  queryKey: ["health"],
  queryFn: ({ signal }) => unwrap(client.GET("/healthz", { signal })),
});

/** Wheel of the command line that the service offers. It does not change while the service runs. */
export const clientQuery = queryOptions({
  queryKey: ["client"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/client", { signal })),
  staleTime: Number.POSITIVE_INFINITY,
});

/** Ways to sign in without a token. */
export const signInQuery = queryOptions({
  queryKey: ["sign-in"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/sign-in", { signal })),
  staleTime: A_MINUTE_MS,
});

/** Login of a command line. It is read once: after the decision the service forgets it. */
export function loginQuery(code: string) {
  return queryOptions({
    queryKey: ["login", code],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/logins/{code}", { params: { path: { code } }, signal })),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
}

function isQueued(job: Job): boolean {
  return job.state === "queued" || job.state === "pulling";
}
