import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import type { keys } from "../../api/keys";

/** Mutation callbacks common to changes of webhooks and tokens. Errors without a field of their own are shown as
 * notifications. */
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
