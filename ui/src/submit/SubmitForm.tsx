import { Alert, Button, Group, NumberInput, Stack, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useNavigate } from "react-router";
import { ApiError } from "../api/client";
import { submitJob } from "../api/commands";
import { keys } from "../api/keys";
import { CopyButton } from "../shell/CopyButton";
import { Icon } from "../shell/Icon";
import { asCurl } from "./copies";
import { idempotencyKey } from "./idempotencyKey";
import { OptionalFields } from "./OptionalFields";
import classes from "./SubmitForm.module.css";
import { EMPTY, parsePairs, toBody, type Values } from "./values";

/** Says what is wrong with a field of NAME=value lines. */
function pairsFault(text: string): string | null {
  try {
    parsePairs(text);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

export function SubmitForm({ initial, hidden }: { initial: Values; hidden: string[] }) {
  const form = useForm<Values>({ initialValues: initial, validate: { env: pairsFault, labels: pairsFault } });
  const [folded, setFolded] = useState(hidden.length === 0);
  const [general, setGeneral] = useState("");
  const sent = useRef({ text: "", key: "" });
  const navigate = useNavigate();
  const queries = useQueryClient();

  const submit = useMutation({
    mutationFn: submitJob,
    onSuccess: (job) => {
      queries.invalidateQueries({ queryKey: [keys.jobs] });
      notifications.show({ message: `Submitted ${job.name}.` });
      navigate(`/jobs/${job.id}`);
    },
    onError: (error) => setGeneral(showErrors(error)),
  });

  /** Puts each message at its field and gives back what belongs to none. */
  function showErrors(error: Error): string {
    const known: Record<string, string> = {};
    const rest: string[] = [];
    for (const [where, message] of Object.entries(error instanceof ApiError ? error.fields : {})) {
      const field = where.split(".")[0] ?? "";
      if (field in EMPTY) known[field] ??= message;
      else rest.push(message);
    }
    form.setErrors(known);
    form.getInputNode(FIVE.find((field) => field in known) ?? "")?.focus();
    if (Object.keys(known).some((field) => !FIVE.includes(field))) setFolded(false);
    return Object.keys(known).length > 0 ? rest.join("; ") : error.message;
  }

  function send(values: Values) {
    const body = toBody(values);
    const text = JSON.stringify(body);
    // Pressed again after a broken connection it is the same submission, after a change another one.
    if (sent.current.text !== text) sent.current = { text, key: idempotencyKey() };
    setGeneral("");
    submit.mutate({ body, key: sent.current.key });
  }

  function onInvalid() {
    setFolded(false);
  }

  return (
    <form className={`card ${classes.form}`} onSubmit={form.onSubmit(send, onInvalid)} noValidate>
      <Stack gap="md">
        {hidden.length > 0 && (
          <Alert color="yellow" variant="light" icon={<Icon name="alert" />}>
            The values of {hidden.join(", ")} are hidden: fill them in again under Environment.
          </Alert>
        )}
        <div className={classes.pair}>
          <TextInput
            label="Name"
            description="For people; need not be unique"
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
          placeholder="schedulearn/horovod-cpu"
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
        <OptionalFields form={form} folded={folded} onFold={setFolded} />
        {general && (
          <Alert color="red" variant="light" icon={<Icon name="alert" />} title="Not submitted" role="alert">
            {general}
          </Alert>
        )}
        <Group>
          <Button type="submit" loading={submit.isPending}>
            Submit
          </Button>
          {pairsFault(form.values.env) === null && pairsFault(form.values.labels) === null && (
            <CopyButton text={asCurl(toBody(form.values), window.location.origin)} label="Copy as curl" />
          )}
        </Group>
      </Stack>
    </form>
  );
}

const FIVE = ["name", "type", "container_image", "command", "required_gpus"];
