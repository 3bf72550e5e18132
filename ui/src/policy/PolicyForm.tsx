import { Alert, Button, Group, Radio, Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../api/client";
import { choosePolicy } from "../api/commands";
import { policyQuery, previewQuery } from "../api/queries";
import type { Policy } from "../api/types";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Icon } from "../shell/Icon";
import { Prose } from "../shell/Prose";
import { choiceOf, type Draft, draftOf, isChanged, kindOf, withAlgorithm, withParameter } from "./draft";
import { ParameterInput } from "./ParameterInput";
import classes from "./PolicyForm.module.css";
import { PreviewPanel } from "./PreviewPanel";

export function PolicyForm({ policy }: { policy: Policy }) {
  // null: nothing edited, so what is shown follows the service.
  const [edited, setEdited] = useState<Draft | null>(null);
  const [looking, setLooking] = useState(false);
  const queries = useQueryClient();
  const choose = useMutation({
    mutationFn: choosePolicy,
    onSuccess: (now) => {
      queries.setQueryData(policyQuery.queryKey, now);
      setEdited(null);
      setLooking(false);
      notifications.show({ message: `${now.algorithm} decides from now on.` });
    },
  });

  const draft = edited ?? draftOf(policy);
  const kind = kindOf(policy, draft.algorithm);
  const parameters = Object.entries(kind?.parameters ?? {});
  const preview = useQuery({ ...previewQuery(choiceOf(draft)), enabled: looking });
  const refused = choose.error ?? (looking ? preview.error : null);
  const fields = refused instanceof ApiError ? refused.fields : {};
  const placed = parameters.some(([name]) => fields[`params.${name}`]);

  function edit(next: Draft) {
    choose.reset();
    setLooking(false);
    setEdited(next);
  }

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        choose.mutate(choiceOf(draft));
      }}
    >
      <div className={classes.columns}>
        <Radio.Group
          label="Algorithm"
          value={draft.algorithm}
          onChange={(algorithm) => edit(withAlgorithm(policy, draft, algorithm))}
        >
          <Stack gap="xs" mt={6}>
            {policy.available.map(({ name, description }) => (
              <Radio.Card
                key={name}
                value={name}
                aria-label={name}
                className={`card ${classes.algorithm}`}
                data-chosen={name === draft.algorithm}
              >
                <Radio.Indicator className={classes.dot} />
                <span>
                  <span className={classes.name}>{name}</span>
                  {name === policy.algorithm && <span className={classes.inForce}>in force</span>}
                  <span className={classes.description}>
                    <Prose text={description} />
                  </span>
                </span>
              </Radio.Card>
            ))}
          </Stack>
        </Radio.Group>
        <div className={classes.side}>
          <Stack gap="md" className={`card ${classes.details}`}>
            {kind && kind.metrics.length > 1 && (
              <Radio.Group
                label="Metric"
                description="What it makes the most of"
                value={draft.metric}
                onChange={(metric) => edit({ ...draft, metric })}
              >
                <Group mt={8}>
                  {kind.metrics.map((metric) => (
                    <Radio key={metric} value={metric} label={metric} />
                  ))}
                </Group>
              </Radio.Group>
            )}
            <h2 className="section-title">Parameters</h2>
            {parameters.length === 0 && <span className={classes.description}>It takes none.</span>}
            {parameters.map(([name, parameter]) => (
              <ParameterInput
                key={`${draft.algorithm}.${name}`}
                name={name}
                parameter={parameter}
                value={draft.params[name]}
                error={fields[`params.${name}`]}
                onChange={(value) => edit(withParameter(draft, name, value))}
              />
            ))}
            {choose.error && !placed && (
              <Alert
                color="red"
                variant="light"
                icon={<Icon name="alert" />}
                title="Not changed"
                role="alert"
              >
                {choose.error.message}
              </Alert>
            )}
            <Group>
              <Button type="submit" loading={choose.isPending} disabled={!isChanged(policy, draft)}>
                Apply
              </Button>
              <Button
                variant="default"
                loading={preview.isFetching}
                onClick={() => (looking ? preview.refetch() : setLooking(true))}
              >
                Preview
              </Button>
              {isChanged(policy, draft) && (
                <Button
                  variant="subtle"
                  onClick={() => {
                    choose.reset();
                    setLooking(false);
                    setEdited(null);
                  }}
                >
                  Undo
                </Button>
              )}
            </Group>
          </Stack>
          {looking && preview.error && !placed && (
            <ErrorNotice title="It can't be foreseen" error={preview.error} retry={preview.refetch} />
          )}
          {looking && preview.data && <PreviewPanel preview={preview.data} />}
        </div>
      </div>
    </form>
  );
}
