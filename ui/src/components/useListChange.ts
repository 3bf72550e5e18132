import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import type { keys } from "../api/keys";

/** Mutation callbacks of a change to a list of things. Errors without a field of their own are shown as
 * notifications. */
export function useListChange(key: (typeof keys)[keyof typeof keys], then: () => void = () => {}) {
  const queries = useQueryClient();
  return {
    onError: (error: Error) => notifications.show({ color: "red", message: error.message }),
    onSettled: () => {
      then();
      return queries.invalidateQueries({ queryKey: [key] });
    },
  };
}
