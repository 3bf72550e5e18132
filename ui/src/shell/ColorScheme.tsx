import { ActionIcon, Tooltip, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { Icon } from "./Icon";

/** Switch between light and dark. It begins with the system's scheme, and the choice is stored. */
export function ColorScheme() {
  const { setColorScheme } = useMantineColorScheme();
  const shown = useComputedColorScheme("light");
  const other = shown === "light" ? "dark" : "light";
  return (
    <Tooltip label={`Use the ${other} colors`}>
      <ActionIcon
        variant="default"
        aria-label={`Use the ${other} colors`}
        onClick={() => setColorScheme(other)}
      >
        <Icon name={other === "dark" ? "moon" : "sun"} />
      </ActionIcon>
    </Tooltip>
  );
}
