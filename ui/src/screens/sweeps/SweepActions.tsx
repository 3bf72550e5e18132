import { Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../../api/keys";
import type { SweepDetail } from "../../api/types";
import { GuardedButton } from "../../may/GuardedButton";
import { useWhyNotOf } from "../../may/useMay";
import { Confirm } from "../../shell/Confirm";
import { Icon } from "../../shell/Icon";
import { cancelSweep, retrySweep } from "../../sweeps/queries";

const whatOf = ({ design }: SweepDetail) =>
  design === null ? "sweep" : design === "search" ? "search" : "experiment";

/** Actions for a sweep, an experiment or a search. */
export function SweepActions({ sweep }: { sweep: SweepDetail }) {
  const [asked, setAsked] = useState(false);
  const whyNot = useWhyNotOf(sweep.user, "sweep");
  const queries = useQueryClient();
  const onSettled = () => queries.invalidateQueries({ queryKey: [keys.sweeps] });
  const cancel = useMutation({
    mutationFn: cancelSweep,
    onSettled: () => {
      setAsked(false);
      return onSettled();
    },
  });
  const retry = useMutation({ mutationFn: retrySweep, onSettled });
  const going = sweep.state === "running" || sweep.state === "stopping";
  const unsuccessful = sweep.runs - sweep.counts.succeeded - sweep.counts.active;
  const what = whatOf(sweep);
  const failure = cancel.error ?? retry.error;
  return (
    <>
      {failure && (
        <Text size="sm" c="red" role="alert">
          {failure.message}
        </Text>
      )}
      {going ? (
        <GuardedButton
          whyNot={whyNot}
          variant="default"
          leftSection={<Icon name="cancel" />}
          disabled={sweep.reason === "cancelled"}
          onClick={() => setAsked(true)}
        >
          Cancel
        </GuardedButton>
      ) : (
        <GuardedButton
          whyNot={whyNot}
          variant="default"
          leftSection={<Icon name="repeat" />}
          disabled={unsuccessful === 0}
          loading={retry.isPending}
          onClick={() => retry.mutate(sweep.id)}
        >
          Retry {unsuccessful > 0 && unsuccessful}
        </GuardedButton>
      )}
      {asked && (
        <Confirm
          title={`Cancel ${sweep.name}?`}
          action={`Cancel the ${what}`}
          pending={cancel.isPending}
          onConfirm={() => cancel.mutate(sweep.id)}
          onClose={() => setAsked(false)}
        >
          {what === "search" ? "It starts no more trials." : "No further run starts."} {sweep.counts.active}{" "}
          of its jobs wait or run, and are cancelled.
        </Confirm>
      )}
    </>
  );
}
