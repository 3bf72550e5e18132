import { Alert, Button, Group, Modal } from "@mantine/core";
import type { ReactNode } from "react";
import { faultsOf } from "../api/client";

interface Props {
  title: string;
  opened: boolean;
  onClose: () => void;
  onSubmit: () => void;
  /** On the button that does it. */
  action: string;
  pending: boolean;
  /** Something is missing. */
  disabled?: boolean;
  /** Why it was refused, and what to call that: "Not added". */
  error: Error | null;
  refused: string;
  /** Its fields that show themselves what is wrong with them. */
  fields: readonly string[];
  /** Whether something is changed, which can be kept as it is. */
  keeps?: boolean;
  children: ReactNode;
}

/** A form over the screen. */
export function FormDialog(props: Props) {
  const { title, opened, onClose, onSubmit, action, pending, disabled = false, error, refused } = props;
  const faults = faultsOf(error);
  const placed = props.fields.some((name) => name in faults);
  return (
    <Modal opened={opened} onClose={onClose} title={title} centered>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {props.children}
        {error && !placed && (
          <Alert color="red" variant="light" mt="sm" title={refused} role="alert">
            {error.message}
          </Alert>
        )}
        <Group justify="flex-end" mt="lg">
          {props.keeps && (
            <Button variant="default" onClick={onClose}>
              Keep
            </Button>
          )}
          <Button type="submit" loading={pending} disabled={disabled}>
            {action}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
