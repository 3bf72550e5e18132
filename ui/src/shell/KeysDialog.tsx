import { Modal } from "@mantine/core";
import { KeyList } from "./KeyList";

/** Dialog with the page's keyboard shortcuts, shown over any screen. */
export default function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title="Keys" centered>
      <KeyList />
    </Modal>
  );
}
