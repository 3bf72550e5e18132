import { useQueryClient } from "@tanstack/react-query";
import { keys } from "../../api/keys";

/** Mutation callbacks common to all changes of users, quotas and groups. */
export function usePeopleChange(then: () => void) {
  const queries = useQueryClient();
  return {
    onSuccess: then,
    onSettled: () =>
      Promise.all(
        [keys.users, keys.quotas, keys.groups, keys.who, keys.tokens].map((key) =>
          queries.invalidateQueries({ queryKey: [key] }),
        ),
      ),
  };
}
