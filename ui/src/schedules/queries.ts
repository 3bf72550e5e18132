import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "../api/client";
import { keys } from "../api/keys";
import type { Schedule } from "../api/types";

export const schedulesQuery = queryOptions({
  queryKey: [keys.schedules],
  queryFn: ({ signal }) =>
    unwrap(client.GET("/api/v1/schedules", { params: { query: { limit: 100 } }, signal })),
});

const one = (id: string) => ({ params: { path: { schedule_id: id } } });

/** Pause a schedule, or resume a paused one. */
export function pauseOrResume({ id, paused_at }: Pick<Schedule, "id" | "paused_at">): Promise<Schedule> {
  return unwrap(
    paused_at === null
      ? client.POST("/api/v1/schedules/{schedule_id}/pause", one(id))
      : client.POST("/api/v1/schedules/{schedule_id}/resume", one(id)),
  );
}

export async function deleteSchedule(id: string): Promise<void> {
  await unwrap(client.DELETE("/api/v1/schedules/{schedule_id}", one(id)));
}
