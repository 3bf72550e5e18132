import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { keys } from "./keys";

export interface UsageChoice {
  /** Epoch ms. */
  since: number;
  by: ("user" | "day" | "label")[];
  /** Label name, used if `by` contains "label". */
  label: string;
  /** Price of a GPU-hour; null: the price in the service's settings. */
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

/** Total and held GPU capacity since a time (epoch ms). */
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

/** Return the URL of the usage rows as a CSV file. */
export function usageFile(choice: UsageChoice): string {
  const query = new URLSearchParams({ format: "csv" });
  for (const [name, value] of Object.entries(usageParameters(choice))) {
    for (const each of [value].flat()) if (each !== undefined) query.append(name, String(each));
  }
  return `/api/v1/usage?${query}`;
}
