import { Button } from "@mantine/core";
import panel from "../../components/Panel.module.css";

interface Props {
  /** For labels: "the group vision". */
  what: string;
  removing: boolean;
  onChange: () => void;
  onRemove: () => void;
}

/** Last cell of a row, with its buttons. */
export function ChangeOrRemove({ what, removing, onChange, onRemove }: Props) {
  return (
    <td className={panel.nowrap}>
      <Button size="xs" variant="default" aria-label={`Change ${what}`} onClick={onChange}>
        Change
      </Button>{" "}
      <Button size="xs" variant="default" aria-label={`Remove ${what}`} loading={removing} onClick={onRemove}>
        Remove
      </Button>
    </td>
  );
}
