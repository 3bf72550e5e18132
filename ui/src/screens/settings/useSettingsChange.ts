import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import type { keys } from "../../api/keys";

/** What follows a change of webhooks or tokens; faults that have no field of their own are shown at the side. */
export function useSettingsChange(key: (typeof keys)[keyof typeof keys], then: () => void = () => {}) {
  const queries = useQueryClient();
  return {
    onError: (error: Error) => notifications.show({ color: "red", message: error.message }),
    onSettled: () => {
      then();
      return queries.invalidateQueries({ queryKey: [key] });
    },
  };
}
