import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { keys } from "./keys";

export interface UsageChoice {
  /** Epoch ms. */
  since: number;
  by: ("user" | "day" | "label")[];
  /** Which label, where `by` names it. */
  label: string;
  /** Of a GPU-hour; null: as it is set where the service is started. */
  price: number | null;
}

const usageParameters = ({ since, by, label, price }: UsageChoice) => ({
  since: new Date(since).toISOString(),
  by,
  label: by.includes("label") ? label : undefined,
  gpu_hour_price: price ?? undefined,
});

export function usageQuery(choice: UsageChoice) {
  return queryOptions({
    queryKey: [keys.usage, JSON.stringify(choice)],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/usage", { params: { query: usageParameters(choice) }, signal })),
    placeholderData: (before) => before,
  });
}

/** How much there was, and how much of it jobs held, since a time (epoch ms). */
export function capacityQuery(since: number) {
  return queryOptions({
    queryKey: [keys.usage, "capacity", since],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/usage/capacity", {
          params: { query: { since: new Date(since).toISOString() } },
          signal,
        }),
      ),
    placeholderData: (before) => before,
  });
}

/** Where the rows of a choice are to be had as a file. */
export function usageFile(choice: UsageChoice): string {
  const query = new URLSearchParams({ format: "csv" });
  for (const [name, value] of Object.entries(usageParameters(choice))) {
    for (const each of [value].flat()) if (each !== undefined) query.append(name, String(each));
  }
  return `/api/v1/usage?${query}`;
}
