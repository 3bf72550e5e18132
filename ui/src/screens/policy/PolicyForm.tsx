import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../../api/client";
import { choosePolicy } from "../../api/commands";
import { policyQuery, previewQuery } from "../../api/policyQueries";
import type { Policy } from "../../api/types";
import { tellWithUndo } from "../../components/tellWithUndo";
import { GuardedButton } from "../../may/GuardedButton";
import { useWhyNot } from "../../may/useMay";
import { ReadError } from "../../shell/Loaded";
import { NotDone } from "../../shell/NotDone";
import { choiceOf, type Draft, draftOf, isChanged, kindOf, withAlgorithm, withParameter } from "./draft";
import { Parameters } from "./Parameters";
import classes from "./PolicyForm.module.css";
import { PolicyHistory } from "./PolicyHistory";
import { PolicyTable } from "./PolicyTable";
import { PreviewPanel } from "./PreviewPanel";
import { nameOf } from "./preview";
import { useHours } from "./useHours";

export function PolicyForm({ policy }: { policy: Policy }) {
  // null: nothing is edited, so the form follows the service.
  const [edited, setEdited] = useState<Draft | null>(null);
  const [looking, setLooking] = useState(false);
  const [hours] = useHours();
  const queries = useQueryClient();
  const choose = useMutation({
    mutationFn: choosePolicy,
    onMutate: () => choiceOf(draftOf(policy)),
    onSuccess: (now, _, before) => {
      queries.setQueryData(policyQuery.queryKey, now);
      forget();
      tellWithUndo(`The policy is now ${nameOf(now)}.`, () => choose.mutate(before));
    },
  });

  const whyNot = useWhyNot("change_policy");
  const draft = edited ?? draftOf(policy);
  const changed = isChanged(policy, draft);
  const preview = useQuery({ ...previewQuery(choiceOf(draft), hours), enabled: looking });
  const refused = choose.error ?? (looking ? preview.error : null);
  const fields = refused instanceof ApiError ? refused.fields : {};
  const placed = Object.keys(kindOf(policy, draft.algorithm)?.parameters ?? {}).some(
    (name) => fields[`params.${name}`],
  );

  function forget() {
    setLooking(false);
    setEdited(null);
  }
  function edit(next: Draft) {
    choose.reset();
    setLooking(false);
    setEdited(next);
  }

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (whyNot === null) choose.mutate(choiceOf(draft));
      }}
    >
      <PolicyTable
        policy={policy}
        draft={draft}
        onChoose={(algorithm, metric) => edit({ ...withAlgorithm(policy, draft, algorithm), metric })}
      >
        <Parameters
          parameters={kindOf(policy, draft.algorithm)?.parameters ?? {}}
          description={kindOf(policy, draft.algorithm)?.description ?? ""}
          draft={draft}
          errors={fields}
          onChange={(name, value) => edit(withParameter(draft, name, value))}
        />
        {looking && !placed && <ReadError queries={[preview]} title="The preview failed" />}
        {looking && preview.data && <PreviewPanel preview={preview.data} />}
      </PolicyTable>
      {choose.error && !placed && (
        <NotDone
          title="Not changed"
          error={choose.error}
          again="Check which policy is active, and apply again."
        />
      )}
      <div className={classes.apply} data-changed={changed} data-bottom-bar>
        <span className={classes.what}>
          {changed ? (
            <>
              {nameOf(policy)} → <strong>{nameOf(draft)}</strong>
              {draft.algorithm === policy.algorithm && draft.metric === policy.metric && ", other parameters"}
            </>
          ) : (
            "Choose a policy, or change its parameters."
          )}
        </span>
        {changed && (
          <Button
            variant="subtle"
            onClick={() => {
              choose.reset();
              forget();
            }}
          >
            Discard
          </Button>
        )}
        <Button
          variant="default"
          loading={preview.isFetching}
          onClick={() => (looking ? preview.refetch() : setLooking(true))}
        >
          Preview
        </Button>
        <GuardedButton whyNot={whyNot} type="submit" loading={choose.isPending} disabled={!changed}>
          Apply
        </GuardedButton>
      </div>
      <PolicyHistory policy={policy} pending={choose.isPending} onChoose={choose.mutate} />
    </form>
  );
}
