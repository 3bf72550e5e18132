import { Button, Group, Modal, Text } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  title: string;
  /** Description of the effect. */
  children: ReactNode;
  /** Label of the confirming button. */
  action: string;
  pending: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** Confirmation of a destructive action. */
export function Confirm({ title, children, action, pending, onConfirm, onClose }: Props) {
  return (
    <Modal opened onClose={onClose} title={title} centered>
      <Text size="sm" component="div">
        {children}
      </Text>
      <Group justify="flex-end" mt="lg">
        <Button variant="default" onClick={onClose} data-autofocus>
          Keep
        </Button>
        <Button color="red" loading={pending} onClick={onConfirm}>
          {action}
        </Button>
      </Group>
    </Modal>
  );
}
