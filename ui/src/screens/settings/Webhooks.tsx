import { Button, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { removeWebhook, setWebhook, testWebhook } from "../../api/commands";
import { keys } from "../../api/keys";
import { webhooksQuery } from "../../api/queries";
import type { Webhook } from "../../api/types";
import { Panel } from "../../components/Panel";
import { useListChange } from "../../components/useListChange";
import { Ago } from "../../format/Elapsed";
import { count, plural } from "../../format/number";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { AddWebhook } from "./AddWebhook";
import { ReceiverRow } from "./ReceiverRow";
import classes from "./SettingsScreen.module.css";

/** Webhooks, notified when jobs end, hosts are lost or GPUs fail. */
export function Webhooks() {
  const webhooks = useQuery(webhooksQuery);
  return (
    <Panel title="Webhooks" action={webhooks.data && <AddWebhook events={webhooks.data.events} />}>
      <Text size="sm" c="dimmed" mb="sm">
        URLs that receive events as JSON, such as a chat or a pager. Failed deliveries are retried for about
        two hours.
      </Text>
      <Loaded query={webhooks} title="The webhooks can't be read">
        {({ items }) =>
          items.length === 0 ? (
            <Text size="sm">
              None yet. Add an incoming webhook of your chat to be notified when jobs end.
            </Text>
          ) : (
            <ul className={classes.hooks} aria-label="Webhooks">
              {items.map((hook) => (
                <Row key={hook.id} hook={hook} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Row({ hook }: { hook: Webhook }) {
  const change = useMutation({ mutationFn: setWebhook, ...useListChange(keys.webhooks) });
  const test = useMutation({
    mutationFn: testWebhook,
    ...useListChange(keys.webhooks),
    onSuccess: (answer) =>
      notifications.show(
        answer.ok
          ? { message: `Delivered: ${answer.status} after ${answer.seconds.toFixed(1)} s.` }
          : { color: "red", message: `Not delivered: ${answer.error}.` },
      ),
  });
  return (
    <ReceiverRow
      testId={`webhook-${hook.id}`}
      name={hook.url}
      facts={[
        hook.events.join(", "),
        hook.signed ? "signed" : "not signed",
        `${count(hook.delivered)} delivered`,
        hook.given_up > 0 && `${count(hook.given_up)} given up`,
      ]}
      standing={<Standing hook={hook} />}
      queryKey={keys.webhooks}
      test={{ label: "Send a test to", pending: test.isPending, run: () => test.mutate(hook.id) }}
      remove={{
        title: "Remove this webhook?",
        action: "Remove the webhook",
        warning: "receives no more events. Its secret is deleted.",
        run: () => removeWebhook(hook.id),
      }}
    >
      <Button
        size="xs"
        variant="default"
        loading={change.isPending}
        aria-label={`${hook.active ? "Pause" : "Resume"} ${hook.url}`}
        onClick={() => change.mutate({ id: hook.id, active: !hook.active })}
      >
        {hook.active ? "Pause" : "Resume"}
      </Button>
    </ReceiverRow>
  );
}

/** Status of a webhook: paused, or the result of its last delivery. */
function Standing({ hook }: { hook: Webhook }) {
  const { last } = hook;
  if (!hook.active) {
    return (
      <div className={classes.warn}>
        <Icon name="pause" size={14} /> Paused: events during a pause are never sent.
      </div>
    );
  }
  if (last === null) return <div className={classes.facts}>No deliveries yet.</div>;
  if (last.error === "") {
    return (
      <div className={classes.facts}>
        <Icon name="check" size={13} /> {last.event} delivered <Ago at={last.at} />, status {last.status}
      </div>
    );
  }
  const again =
    hook.failing > 0
      ? ` Tried ${plural(hook.failing, "time")}; it is tried again, and later events wait.`
      : "";
  return (
    <div className={classes.bad}>
      <Icon name="alert" size={14} /> {last.event} was not delivered <Ago at={last.at} />: {last.error}.
      {again}
    </div>
  );
}
