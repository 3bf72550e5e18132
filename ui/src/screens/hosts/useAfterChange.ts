import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { keys } from "../../api/keys";

/** Mutation callbacks common to all changes of a host. */
export function useAfterChange(then: () => void = () => {}) {
  const queries = useQueryClient();
  return {
    onError: (error: Error) => notifications.show({ color: "red", message: error.message }),
    onSettled: () => {
      then();
      return queries.invalidateQueries({ queryKey: [keys.hosts] });
    },
  };
}
