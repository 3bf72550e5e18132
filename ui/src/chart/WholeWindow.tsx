import { Modal } from "@mantine/core";
import type { ReactNode } from "react";

/** Full-screen dialog. Escape closes it. */
export default function WholeWindow({
  label,
  onClose,
  children,
}: {
  label: string;
  onClose: () => void;
  children: ReactNode;
}) {
  return (
    <Modal opened fullScreen onClose={onClose} title={`${label}, full screen`}>
      {children}
    </Modal>
  );
}
