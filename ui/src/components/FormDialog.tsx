import { Alert, Button, Group, Modal } from "@mantine/core";
import type { ReactNode } from "react";
import { faultsOf } from "../api/client";

interface Props {
  title: string;
  opened: boolean;
  onClose: () => void;
  onSubmit: () => void;
  /** Label of the submit button. */
  action: string;
  pending: boolean;
  /** A required value is missing. */
  disabled?: boolean;
  /** Error of the last submission, and its title, such as "Not added". */
  error: Error | null;
  refused: string;
  /** Names of fields that show their own error. */
  fields: readonly string[];
  /** The form changes something that exists. A button offers to keep it. */
  keeps?: boolean;
  children: ReactNode;
}

/** Modal form. */
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
