import { Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { removeNoticeAddress, testNoticeAddress } from "../../api/commands";
import { keys } from "../../api/keys";
import { notifyQuery } from "../../api/queries";
import type { NoticeAddress } from "../../api/types";
import { Panel } from "../../components/Panel";
import { useListChange } from "../../components/useListChange";
import { Ago } from "../../format/Elapsed";
import { count } from "../../format/number";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { AddNoticeAddress } from "./AddNoticeAddress";
import { ReceiverRow } from "./ReceiverRow";
import classes from "./SettingsScreen.module.css";

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
  const test = useMutation({
    mutationFn: testNoticeAddress,
    ...useListChange(keys.notify),
    onSuccess: (answer) =>
      notifications.show(
        answer.ok
          ? { message: `Accepted after ${answer.seconds.toFixed(1)} s.` }
          : { color: "red", message: `Not accepted: ${answer.error}.` },
      ),
  });
  return (
    <ReceiverRow
      testId={`address-${item.name}`}
      name={item.name}
      facts={[
        item.address,
        item.events.join(", "),
        item.every_job && "every job",
        `${count(item.delivered)} delivered`,
        item.given_up > 0 && `${count(item.given_up)} given up`,
        item.waiting > 0 && `${count(item.waiting)} waiting`,
      ]}
      standing={<LastTry item={item} />}
      queryKey={keys.notify}
      test={{ label: "Send a trial to", pending: test.isPending, run: () => test.mutate(item.name) }}
      remove={{
        title: "Remove this address?",
        action: "Remove the address",
        warning: "gets no more notices, also not those that wait.",
        run: () => removeNoticeAddress(item.name),
      }}
    />
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
