import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { clock } from "../format/clock";
import type { JobsFilter } from "../jobs/filters";
import { client, problemToError, unwrap } from "./client";
import { fileAddress } from "./fileKind";
import { keys } from "./keys";
import { sharedById } from "./sharing";
import type { Job, JobState } from "./types";

/** Why a job waits, and how busy a GPU is, change without an event: those are asked for again, and only those. */
const UNANNOUNCED_MS = 5_000;

/** When a job that runs will end is predicted anew without an event as well, about so often. */
const PREDICTED_MS = 10_000;

/** What moves on with the time, where no event says so. */
const A_MINUTE_MS = 60_000;

const HOLDERS: JobState[] = ["starting", "running", "resizing", "stopping"];

/** Jobs of one answer. A list of more than some pages stands still, since all of it would be fetched anew. */
const PAGE = 100;
/** Of what is typed, as long as the service takes; of what is found, as much as one looks through. */
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

/** The name of a job that another one's sentence tells of; it never changes. */
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

/** The queue, in its order, as far as it is shown. */
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

/** Jobs whose name or id contains this, the newest; without a text the newest of all. */
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

/** Who waits, longest first, as far as a place in the queue is told. */
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

/** What a job reports of itself comes without an event; one that has ended reports no more. */
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

/** What is in a folder of a job's files. It asks the hosts, so it is asked for again by hand only. */
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

/** The beginning of a file: 64 KiB at most. `bytes`: its size, by which a file that has grown is read again. */
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

/** For screens that show how busy GPUs are. */
export const watchedHostsQuery = queryOptions({ ...hostsQuery, refetchInterval: UNANNOUNCED_MS });

/** Names of the jobs that hold GPUs, by id: a GPU says only the ids. */
export const runningNamesQuery = queryOptions({
  queryKey: [keys.jobs, "names"],
  queryFn: ({ signal }) =>
    unwrap(client.GET("/api/v1/jobs", { params: { query: { state: HOLDERS, limit: 1000 } }, signal })),
  select: (page) => Object.fromEntries(page.items.map((job) => [job.id, job.name])),
});

/** The jobs that hold GPUs themselves. */
export const holdersQuery = queryOptions({ ...runningNamesQuery, select: (page) => page.items });

export const clusterQuery = queryOptions({
  queryKey: [keys.cluster],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/cluster", { signal })),
});

const ago = (seconds: number) => new Date(clock.now() - seconds * 1000).toISOString();

/** Who had which GPU between two times (epoch ms); null: until now. */
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

/** So many jobs that wait are drawn, and some more, so that those that a filter finds are among them. */
const EXPECTED = 500;

/** When running and waiting jobs are expected to start and end. It is predicted anew without an event. */
export const expectedQuery = queryOptions({
  queryKey: [keys.timeline, "expected"],
  queryFn: ({ signal }) =>
    unwrap(client.GET("/api/v1/timeline/expected", { params: { query: { limit: EXPECTED } }, signal })),
  refetchInterval: PREDICTED_MS,
});

/** Who had which GPU over the last `seconds`, whenever it is asked. */
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

/** What GPUs did is measured every second, and announced by no event. */
const MEASURED_MS = 10_000;

/** The GPUs of a host over the last `seconds`. */
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

/** The GPUs of a job, while it held them. */
export function jobTelemetryQuery(id: string, running: boolean) {
  return queryOptions({
    queryKey: [keys.telemetry, "job", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}/telemetry", { params: { path: { job_id: id } }, signal })),
    refetchInterval: running ? MEASURED_MS : false,
    structuralSharing: false,
  });
}

/** The cluster's utility over the last `seconds`; it is kept by the minute. */
export function utilityQuery(seconds: number) {
  return queryOptions({
    queryKey: [keys.utility, String(seconds)],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/cluster/utility", { params: { query: { from: ago(seconds) } }, signal })),
    refetchInterval: A_MINUTE_MS,
    placeholderData: (before) => before,
  });
}

/** What became of deliveries is announced by no event. */
export const webhooksQuery = queryOptions({
  queryKey: [keys.webhooks],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/webhooks", { signal })),
  refetchInterval: ({ state }) => (state.data?.items.length ? MEASURED_MS : false),
});

export const tokensQuery = queryOptions({
  queryKey: [keys.tokens],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/tokens", { signal })),
});

/** Who the service takes one for, and what one may have. */
export const whoQuery = queryOptions({
  queryKey: [keys.who],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/whoami", { signal })),
  staleTime: A_MINUTE_MS,
});

export const usersQuery = queryOptions({
  queryKey: [keys.users],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/users", { signal })),
});

/** What is used of them is announced by no event. */
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

/** Set where the service is started: they don't change while it runs. */
export const dataSetsQuery = queryOptions({
  queryKey: [keys.dataSets],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/data-sets", { signal })),
  staleTime: Number.POSITIVE_INFINITY,
});

export interface EventsFilter {
  text: string;
  /** Beginning of the kind; empty: all. */
  kind: string;
  job: string;
  host: string;
}

export function eventsQuery({ text, kind, job, host }: EventsFilter) {
  return infiniteQueryOptions({
    queryKey: [keys.events, text, kind, job, host],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/events:search", {
          params: {
            query: {
              q: text || undefined,
              kind: kind ? [kind] : undefined,
              job: job || undefined,
              host: host || undefined,
              before: pageParam ?? undefined,
              limit: 100,
            },
          },
          signal,
        }),
      ),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => (last.items.length < 100 ? null : (last.items.at(-1)?.id ?? null)),
    placeholderData: (before) => before,
    structuralSharing: sharedById,
  });
}

export const healthQuery = queryOptions({
  queryKey: ["health"],
  queryFn: ({ signal }) => unwrap(client.GET("/healthz", { signal })),
});

function isQueued(job: Job): boolean {
  return job.state === "queued" || job.state === "pulling";
}
