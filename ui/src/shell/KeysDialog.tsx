import { Modal } from "@mantine/core";
import { KeyList } from "./KeyList";

/** The page's keys, over whatever screen is open. */
export default function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title="Keys" centered>
      <KeyList />
    </Modal>
  );
}
