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
          description="For display; need not be unique"
          data-first
          {...form.getInputProps("name")}
        />
        <TextInput
          label="Type"
          description="Framework"
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
        description="Run by the launcher; split into words, not interpreted by a shell"
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
        description="A rigid job gets exactly this number, an elastic one starts with it"
        min={1}
        allowDecimal={false}
        {...form.getInputProps("required_gpus")}
      />
    </>
  );
}
