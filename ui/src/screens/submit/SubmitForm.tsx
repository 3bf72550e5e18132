import { Alert, Group, SegmentedControl, Stack, Textarea } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { ApiError } from "../../api/client";
import { submitJob } from "../../api/commands";
import { keys } from "../../api/keys";
import { useKeyOf } from "../../api/useKeyOf";
import { DropCode, type SentCode } from "../../code/DropCode";
import { asCurl } from "../../jobs/copies";
import { digestOf, EMPTY, fromJson, hiddenIn, parsePairs, toBody, type Values } from "../../jobs/values";
import { GuardedButton } from "../../may/GuardedButton";
import { useWhyNot } from "../../may/useMay";
import { CopyButton } from "../../shell/CopyButton";
import { Icon } from "../../shell/Icon";
import { NotDone } from "../../shell/NotDone";
import { AdvicePanel } from "./AdvicePanel";
import { taken as advised } from "./advice";
import { FIVE, FiveFields } from "./FiveFields";
import { OptionalFields } from "./OptionalFields";
import { Outlook } from "./Outlook";
import classes from "./SubmitForm.module.css";

/** Return the error in a field of NAME=value lines. */
function pairsFault(text: string): string | null {
  try {
    parsePairs(text);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Form for a job. `from` is the id of a job to clone, whose masked values the service knows. */
export function SubmitForm({ initial, from }: { initial: Values; from?: string }) {
  const hidden = hiddenIn(toBody(initial).env);
  const form = useForm<Values>({ initialValues: initial, validate: { env: pairsFault, labels: pairsFault } });
  const [folded, setFolded] = useState(hidden.length === 0);
  // null: the form is shown. Otherwise the JSON as typed.
  const [json, setJson] = useState<string | null>(null);
  const [general, setGeneral] = useState<Error | null>(null);
  const whyNot = useWhyNot("submit");
  const keyOf = useKeyOf();
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

  /** Show each message at its field. Return an error with those without a field. */
  function showErrors(error: Error): Error | null {
    const fields = Object.entries(error instanceof ApiError ? error.fields : {});
    if (json !== null && fields.length > 0)
      return new Error(fields.map(([name, text]) => `${name}: ${text}`).join("; "));
    const { placed, rest } = place(fields);
    if (!placed) return error;
    return rest ? new Error(rest) : null;
  }

  /** Show messages at the existing fields. `rest` is the other messages. */
  function place(fields: [string, string][]): { placed: boolean; rest: string } {
    const known: Record<string, string> = {};
    const rest: string[] = [];
    for (const [where, message] of fields) {
      const field = where.split(".")[0] ?? "";
      if (field in EMPTY) known[field] ??= message;
      else rest.push(message);
    }
    form.setErrors(known);
    form.getInputNode(FIVE.find((field) => field in known) ?? "")?.focus();
    if (Object.keys(known).some((field) => !FIVE.includes(field))) setFolded(false);
    return { placed: Object.keys(known).length > 0, rest: rest.join("; ") };
  }

  /** Use the uploaded code in the job. Empty fields get suitable values. */
  function take({ digest, picked, image }: SentCode) {
    const { more, name, type, container_image, command } = form.values;
    const [only, ...others] = picked.files;
    const script = others.length === 0 && only?.path.endsWith(".py") ? `python ${only.path}` : "";
    form.setValues({
      more: { ...more, code: { digest } },
      name: name || picked.name.replace(/\.py$/, ""),
      type: type || "Pytorch",
      container_image: container_image || image,
      command: command || script,
    });
  }

  function send(values: Values) {
    if (whyNot !== null) return;
    const body = toBody(values);
    setGeneral(null);
    submit.mutate({
      body,
      key: keyOf(body),
      envFrom: hiddenIn(body.env).length > 0 ? from : undefined,
    });
  }

  /** Parse the JSON into the form. If it is not a valid job, show the error and return null. */
  function taken(text: string): Values | null {
    try {
      const values = fromJson(text);
      form.setValues(values);
      setGeneral(null);
      return values;
    } catch (error) {
      setGeneral(error as Error);
      return null;
    }
  }

  function show(mode: string) {
    if (mode === "json") setJson(JSON.stringify(toBody(form.values), null, 2));
    else if (json !== null && taken(json)) setJson(null);
  }

  const readable = pairsFault(form.values.env) === null && pairsFault(form.values.labels) === null;
  return (
    <div className={classes.both}>
      <form
        className={`card ${classes.form}`}
        noValidate
        onKeyDown={(event) => {
          // Enter alone starts a new line in the command.
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
        }}
        onSubmit={(event) => {
          if (json === null) {
            form.onSubmit(send, () => setFolded(false))(event);
            return;
          }
          event.preventDefault();
          const values = taken(json);
          if (values) send(values);
        }}
      >
        <Stack gap="md">
          {whyNot !== null && (
            <Alert variant="light" icon={<Icon name="alert" />} title="You can't submit jobs">
              {whyNot}. An admin of this service can change that.
            </Alert>
          )}
          {hidden.length > 0 && (
            <Alert color="yellow" variant="light" icon={<Icon name="alert" />}>
              The values of {hidden.join(", ")} are hidden. They are copied unless you change the image, the
              command, the launcher, the data sets or the environment; then enter them again under
              Environment.
            </Alert>
          )}
          <SegmentedControl
            aria-label="How to fill it in"
            className={classes.mode}
            data={[
              { value: "form", label: "Form" },
              { value: "json", label: "JSON", disabled: !readable },
            ]}
            value={json === null ? "form" : "json"}
            onChange={show}
          />
          {json === null ? (
            <>
              {whyNot === null && (
                <DropCode
                  digest={digestOf(form.values)}
                  onSent={take}
                  onRemove={() => {
                    const { code: _, ...more } = form.values.more;
                    form.setFieldValue("more", more);
                  }}
                />
              )}
              <FiveFields form={form} />
              <OptionalFields form={form} folded={folded} onFold={setFolded} />
            </>
          ) : (
            <Textarea
              label="The job as JSON"
              description="Body of POST /api/v1/jobs"
              autosize
              minRows={12}
              maxRows={30}
              classNames={{ input: "mono" }}
              value={json}
              onChange={(event) => setJson(event.currentTarget.value)}
            />
          )}
          {general && (
            <NotDone
              title="Not submitted"
              error={general}
              again="Submit again: a job that was already received is not created twice."
            />
          )}
          <Group>
            <GuardedButton whyNot={whyNot} type="submit" loading={submit.isPending}>
              Submit
            </GuardedButton>
            {json === null && readable && (
              <>
                <Outlook body={toBody(form.values)} onError={(error) => setGeneral(showErrors(error))} />
                <CopyButton text={asCurl(toBody(form.values), window.location.origin)} label="Copy as curl" />
              </>
            )}
          </Group>
        </Stack>
      </form>
      {json === null && (
        <AdvicePanel
          job={readable ? toBody(form.values) : null}
          onTake={(option) => {
            form.setValues(advised(option));
            form.clearErrors();
          }}
          onJobFaults={(faults) => place(Object.entries(faults)).rest}
        />
      )}
    </div>
  );
}
