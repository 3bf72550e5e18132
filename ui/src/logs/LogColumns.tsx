import { ActionIcon, Checkbox, Popover, Stack, Tooltip } from "@mantine/core";
import { useLocalStorage, useMediaQuery } from "@mantine/hooks";
import { useState } from "react";
import { Icon } from "../shell/Icon";
import type { LogBuffer } from "./LogBuffer";
import type { Columns } from "./LogLine";

const WIDE = "(min-width: 48em)";

/** Columns before the text: those chosen, and those with content. The choice is stored in this browser. */
export function useColumns(log: LogBuffer) {
  const [chosen, keep] = useLocalStorage<Partial<Columns>>({
    key: "schedulearn-log-columns",
    defaultValue: {},
    getInitialValueInEffect: false,
  });
  const wide = useMediaQuery(WIDE, true, { getInitialValueInEffect: false });
  const columns: Columns = { time: chosen.time ?? wide, rank: chosen.rank ?? true };
  const shown: Columns = { time: columns.time && log.hasTimes, rank: columns.rank && log.hasRanks };
  return { columns, shown, choose: (choice: Partial<Columns>) => keep({ ...chosen, ...choice }) };
}

interface Props {
  columns: Columns;
  log: LogBuffer;
  onChoose: (choice: Partial<Columns>) => void;
}

export function ColumnChoice({ columns, log, onChoose }: Props) {
  const [opened, setOpened] = useState(false);
  return (
    <Popover position="bottom-end" withArrow trapFocus opened={opened} onChange={setOpened}>
      <Popover.Target>
        <Tooltip label="Columns" disabled={opened}>
          <ActionIcon variant="default" aria-label="Columns" onClick={() => setOpened(!opened)}>
            <Icon name="columns" />
          </ActionIcon>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="xs">
          <Checkbox
            label="Time"
            description={log.hasTimes ? undefined : "unknown for these lines"}
            checked={columns.time}
            onChange={(event) => onChoose({ time: event.currentTarget.checked })}
          />
          <Checkbox
            label="Rank"
            description={log.hasRanks ? undefined : "not in these lines"}
            checked={columns.rank}
            onChange={(event) => onChoose({ rank: event.currentTarget.checked })}
          />
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
