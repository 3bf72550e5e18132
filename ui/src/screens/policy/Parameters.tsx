import type { Parameter } from "../../api/types";
import { Prose } from "../../shell/Prose";
import type { Draft } from "./draft";
import { ParameterInput } from "./ParameterInput";
import classes from "./PolicyForm.module.css";

interface Props {
  parameters: Record<string, Parameter>;
  description: string;
  draft: Draft;
  /** Error message of each field. */
  errors: Record<string, string>;
  onChange: (name: string, value: unknown) => void;
}

/** Description of a policy, and inputs for its parameters. */
export function Parameters({ parameters, description, draft, errors, onChange }: Props) {
  const names = Object.entries(parameters);
  return (
    <>
      <p className={classes.description}>
        <Prose text={description} />
        {names.length === 0 && " It takes no parameters."}
      </p>
      <div className={classes.parameters}>
        {names.map(([name, parameter]) => (
          <ParameterInput
            key={`${draft.algorithm}.${name}`}
            name={name}
            parameter={parameter}
            value={draft.params[name]}
            error={errors[`params.${name}`]}
            onChange={(value) => onChange(name, value)}
          />
        ))}
      </div>
    </>
  );
}
