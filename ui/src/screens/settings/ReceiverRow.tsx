import { Button, Group } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { keys } from "../../api/keys";
import { useListChange } from "../../components/useListChange";
import { Confirm } from "../../shell/Confirm";
import classes from "./SettingsScreen.module.css";

interface ReceiverRowProps {
  testId: string;
  name: string;
  facts: (string | false)[];
  /** Result of the last delivery. */
  standing: ReactNode;
  /** Query that lists the receivers. */
  queryKey: (typeof keys)[keyof typeof keys];
  test: { label: string; pending: boolean; run: () => void };
  /** Buttons between those that test and remove it. */
  children?: ReactNode;
  remove: { title: string; action: string; warning: string; run: () => Promise<unknown> };
}

/** Receiver of events in a list: a webhook, or an address for notices. */
export function ReceiverRow({
  testId,
  name,
  facts,
  standing,
  queryKey,
  test,
  children,
  remove,
}: ReceiverRowProps) {
  const [removing, setRemoving] = useState(false);
  const removal = useMutation({
    mutationFn: remove.run,
    ...useListChange(queryKey, () => setRemoving(false)),
  });
  return (
    <li className={classes.hook} data-testid={testId}>
      <div className={classes.about}>
        <div className={classes.url}>{name}</div>
        <div className={classes.facts}>{facts.filter(Boolean).join(" · ")}</div>
        {standing}
      </div>
      <Group gap={8} wrap="nowrap">
        <Button
          size="xs"
          variant="default"
          loading={test.pending}
          aria-label={`${test.label} ${name}`}
          onClick={test.run}
        >
          Test
        </Button>
        {children}
        <Button size="xs" variant="default" aria-label={`Remove ${name}`} onClick={() => setRemoving(true)}>
          Remove
        </Button>
      </Group>
      {removing && (
        <Confirm
          title={remove.title}
          action={remove.action}
          pending={removal.isPending}
          onConfirm={() => removal.mutate()}
          onClose={() => setRemoving(false)}
        >
          {name} {remove.warning}
        </Confirm>
      )}
    </li>
  );
}
