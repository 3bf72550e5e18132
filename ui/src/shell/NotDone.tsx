import { Alert } from "@mantine/core";
import { useSyncExternalStore } from "react";
import { isUnanswered } from "../api/client";
import { connection } from "../api/service";
import { Icon } from "./Icon";

interface Props {
  /** Title of the error: "Not submitted". */
  title: string;
  error: Error;
  /** Advice for when the service replies again. */
  again: string;
}

/** Error of an action. If only the connection was lost, it disappears when the service replies again. */
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
