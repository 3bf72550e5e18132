import { Button, Group } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { Icon } from "../shell/Icon";

const SHOWN_MS = 8_000;

/** Show what was done, with an undo button for 8 seconds. */
export function tellWithUndo(message: string, undo: () => void) {
  const id = notifications.show({
    autoClose: SHOWN_MS,
    message: (
      <Group justify="space-between" wrap="nowrap">
        <span>{message}</span>
        <Button
          size="compact-xs"
          variant="default"
          leftSection={<Icon name="undo" size={13} />}
          onClick={() => {
            notifications.hide(id);
            undo();
          }}
        >
          Undo
        </Button>
      </Group>
    ),
  });
}
