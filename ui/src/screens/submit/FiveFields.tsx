import { NumberInput, Textarea, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import type { Values } from "../../jobs/values";
import classes from "./SubmitForm.module.css";

/** Keys that make a complete job. */
export const FIVE = ["name", "type", "container_image", "command", "required_gpus"];

export function FiveFields({ form }: { form: UseFormReturnType<Values> }) {
  return (
    <>
      <div className={classes.pair}>
        <TextInput
          label="Name"
          description="For people; need not be unique"
          data-first
          {...form.getInputProps("name")}
        />
        <TextInput
          label="Type"
          description="The framework"
          placeholder="Pytorch"
          {...form.getInputProps("type")}
        />
      </div>
      <TextInput
        label="Image"
        description="Of the container"
        placeholder="schedulearn/pytorch"
        classNames={{ input: "mono" }}
        {...form.getInputProps("container_image")}
      />
      <Textarea
        label="Command"
        description="Run under the launcher; split into words, no shell is involved"
        placeholder="python train.py --epochs 5"
        autosize
        minRows={2}
        maxRows={12}
        classNames={{ input: "mono" }}
        {...form.getInputProps("command")}
      />
      <NumberInput
        className={classes.narrow}
        label="GPUs"
        description="A rigid job gets exactly these, an elastic one starts from them"
        min={1}
        allowDecimal={false}
        {...form.getInputProps("required_gpus")}
      />
    </>
  );
}
