import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "../api/client";
import { keys } from "../api/keys";

export const maintenanceQuery = queryOptions({
  queryKey: [keys.maintenance],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/maintenance", { signal })),
});

export async function deleteWindow(id: number): Promise<void> {
  await unwrap(client.DELETE("/api/v1/maintenance/{window_id}", { params: { path: { window_id: id } } }));
}
