import { NativeSelect, NumberInput, Switch, TextInput } from "@mantine/core";
import type { Parameter } from "../../api/types";
import { Prose } from "../../shell/Prose";
import { inputKind } from "./draft";

interface Props {
  name: string;
  parameter: Parameter;
  /** undefined: not set, so the default applies. */
  value: unknown;
  error: string | undefined;
  onChange: (value: unknown) => void;
}

export function ParameterInput({ name, parameter, value, error, onChange }: Props) {
  const standard = parameter.default;
  const isDefault = standard === null ? "" : ` Default: ${standard}.`;
  const description = <Prose text={`${sentence(parameter.description)}${isDefault}`} />;
  const common = { label: name, error, description };
  switch (inputKind(parameter)) {
    case "choice":
      return (
        <NativeSelect
          {...common}
          data={parameter.choices}
          value={String(value ?? standard)}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
    case "switch":
      return (
        <Switch
          {...common}
          checked={Boolean(value ?? standard)}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case "number":
      return (
        <NumberInput
          {...common}
          placeholder={String(standard ?? "")}
          value={(value as number | undefined) ?? ""}
          onChange={(next) => onChange(next === "" ? undefined : next)}
        />
      );
    default:
      return (
        <TextInput
          {...common}
          placeholder={String(standard ?? "")}
          value={(value as string | undefined) ?? ""}
          onChange={(event) => onChange(event.currentTarget.value || undefined)}
        />
      );
  }
}

/** Format a description as a sentence. Descriptions in code begin with a lower-case letter and end without a period. */
function sentence(text: string): string {
  return text ? `${text[0]?.toUpperCase()}${text.slice(1).replace(/\.$/, "")}.` : "";
}
