import { Alert } from "@mantine/core";
import { useSyncExternalStore } from "react";
import { isUnanswered } from "../api/client";
import { connection } from "../api/service";
import { Icon } from "./Icon";

interface Props {
  /** "Not submitted". */
  title: string;
  error: Error;
  /** What to do once the service answers again. */
  again: string;
}

/** Tells that something was not done; where only the connection was missing, no longer than it is. */
export function NotDone({ title, error, again }: Props) {
  const outage = useSyncExternalStore(connection.subscribe, connection.outage);
  if (isUnanswered(error) && outage === null) {
    return (
      <Alert color="blue" variant="light" role="status">
        The service answers again. {again}
      </Alert>
    );
  }
  return (
    <Alert color="red" variant="light" icon={<Icon name="alert" />} title={title} role="alert">
      {error.message}
    </Alert>
  );
}
