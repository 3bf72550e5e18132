import { Button, Group, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { removeNoticeAddress, testNoticeAddress } from "../../api/commands";
import { keys } from "../../api/keys";
import { notifyQuery } from "../../api/queries";
import type { NoticeAddress } from "../../api/types";
import { Panel } from "../../components/Panel";
import { Ago } from "../../format/Elapsed";
import { count } from "../../format/number";
import { Confirm } from "../../shell/Confirm";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { AddNoticeAddress } from "./AddNoticeAddress";
import classes from "./SettingsScreen.module.css";
import { useSettingsChange } from "./useSettingsChange";

/** One's own addresses, which get notices about one's own jobs. */
export function Notices() {
  const addresses = useQuery(notifyQuery);
  return (
    <Panel
      title="Notices"
      action={
        addresses.data && (
          <AddNoticeAddress events={addresses.data.events} hasMail={addresses.data.has_mail} />
        )
      }
    >
      <Text size="sm" c="dimmed" mb="sm">
        Your addresses for news about your jobs. A job names them in <code className="mono">notify</code>;{" "}
        <code className="mono">me</code> means all of them.
      </Text>
      <Loaded query={addresses} title="Your addresses can't be read">
        {({ items }) =>
          items.length === 0 ? (
            <Text size="sm">None yet. Add an e-mail address, a chat or your phone.</Text>
          ) : (
            <ul className={classes.hooks} aria-label="Notices">
              {items.map((item) => (
                <Row key={item.name} item={item} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Row({ item }: { item: NoticeAddress }) {
  const [removing, setRemoving] = useState(false);
  const remove = useMutation({
    mutationFn: removeNoticeAddress,
    ...useSettingsChange(keys.notify, () => setRemoving(false)),
  });
  const test = useMutation({
    mutationFn: testNoticeAddress,
    ...useSettingsChange(keys.notify),
    onSuccess: (answer) =>
      notifications.show(
        answer.ok
          ? { message: `Accepted after ${answer.seconds.toFixed(1)} s.` }
          : { color: "red", message: `Not accepted: ${answer.error}.` },
      ),
  });
  const facts = [
    item.address,
    item.events.join(", "),
    item.every_job && "every job",
    `${count(item.delivered)} delivered`,
    item.given_up > 0 && `${count(item.given_up)} given up`,
    item.waiting > 0 && `${count(item.waiting)} waiting`,
  ].filter(Boolean);
  return (
    <li className={classes.hook} data-testid={`address-${item.name}`}>
      <div className={classes.about}>
        <div className={classes.url}>{item.name}</div>
        <div className={classes.facts}>{facts.join(" · ")}</div>
        <LastTry item={item} />
      </div>
      <Group gap={8} wrap="nowrap">
        <Button
          size="xs"
          variant="default"
          loading={test.isPending}
          aria-label={`Send a trial to ${item.name}`}
          onClick={() => test.mutate(item.name)}
        >
          Test
        </Button>
        <Button
          size="xs"
          variant="default"
          aria-label={`Remove ${item.name}`}
          onClick={() => setRemoving(true)}
        >
          Remove
        </Button>
      </Group>
      {removing && (
        <Confirm
          title="Remove this address?"
          action="Remove the address"
          pending={remove.isPending}
          onConfirm={() => remove.mutate(item.name)}
          onClose={() => setRemoving(false)}
        >
          {item.name} gets no more notices, also not those that wait.
        </Confirm>
      )}
    </li>
  );
}

/** Result of the last try. */
function LastTry({ item }: { item: NoticeAddress }) {
  if (item.last_at === null) return <div className={classes.facts}>Nothing was sent yet.</div>;
  if (item.last_error === "") {
    return (
      <div className={classes.facts}>
        <Icon name="check" size={13} /> accepted <Ago at={item.last_at} />
      </div>
    );
  }
  return (
    <div className={classes.bad}>
      <Icon name="alert" size={14} /> not accepted <Ago at={item.last_at} />: {item.last_error}
    </div>
  );
}
