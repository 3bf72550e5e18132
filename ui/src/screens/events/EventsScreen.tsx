import { Button, Group, NativeSelect, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { eventsQuery } from "../../api/queries";
import { When } from "../../format/Elapsed";
import { Sentence } from "../../jobs/Sentence";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { useAddressText, useSetAddress } from "../../shell/useAddress";
import classes from "./EventsScreen.module.css";

const KINDS = [
  { value: "", label: "everything" },
  { value: "job.", label: "jobs" },
  { value: "job.waiting", label: "why jobs wait" },
  { value: "job.resiz", label: "resizes" },
  { value: "job.failed", label: "failures" },
  { value: "host.", label: "hosts" },
  { value: "policy.", label: "policy" },
  { value: "login.", label: "sign-ins" },
];

type Names = Record<string, string | undefined>;

/** Screen of all events, newest first, updated live. */
export default function EventsScreen() {
  const [address] = useSearchParams();
  const set = useSetAddress();
  const text = useAddressText("q");
  const actor = useAddressText("actor");
  const filter = {
    text: text.settled.trim(),
    kind: address.get("kind") ?? "",
    job: address.get("job") ?? "",
    host: address.get("host") ?? "",
    actor: actor.settled.trim(),
  };
  const events = useInfiniteQuery(eventsQuery(filter));
  const rows = events.data?.pages.flatMap((page) => page.items) ?? [];
  const names = Object.assign({}, ...(events.data?.pages.map((page) => page.names) ?? [])) as Names;

  return (
    <Screen title="Events">
      <Group mb="md" gap="sm">
        <TextInput
          className={classes.text}
          aria-label="Sentence contains"
          placeholder="Search"
          leftSection={<Icon name="search" />}
          value={text.typed}
          onChange={(event) => text.type(event.currentTarget.value)}
        />
        <NativeSelect
          aria-label="About"
          data={KINDS}
          value={filter.kind}
          onChange={(event) => set("kind", event.currentTarget.value || null)}
        />
        <TextInput
          aria-label="By user"
          placeholder="By user (*: any)"
          value={actor.typed}
          onChange={(event) => actor.type(event.currentTarget.value)}
        />
        {(["job", "host"] as const).map(
          (name) =>
            filter[name] && (
              <Button key={name} size="xs" variant="default" onClick={() => set(name, null)}>
                {name} {filter[name]} ×
              </Button>
            ),
        )}
      </Group>
      <Loaded query={events} title="The events can't be read">
        {() =>
          rows.length === 0 ? (
            <Text c="dimmed">
              No event matches.{" "}
              {filter.text || filter.kind || filter.actor
                ? "Search for fewer words."
                : "Submit a job to see some."}
            </Text>
          ) : (
            <ol className={`card ${classes.list}`} data-testid="events">
              {rows.map((event) => (
                <li key={event.id} className={classes.row}>
                  <span className={classes.time}>
                    <When at={event.at} seconds />
                  </span>
                  <span className={classes.kind}>{event.kind}</span>
                  <span className={classes.message}>
                    <Sentence text={event.message} />{" "}
                    {event.code && <code className={classes.code}>{event.code}</code>}
                  </span>
                  <span className={classes.about}>
                    {event.job_id && (
                      <Link to={`/jobs/${event.job_id}`} title={`Job ${event.job_id}`}>
                        {names[event.job_id] ?? <span className="mono">{event.job_id}</span>}
                      </Link>
                    )}
                    {event.actor && (
                      <button
                        type="button"
                        className={classes.actor}
                        title={event.address ? `From ${event.address}` : undefined}
                        onClick={() => set("actor", event.actor)}
                      >
                        by {event.actor}
                      </button>
                    )}
                    {event.host_id && (
                      <Link to={`/hosts#${encodeURIComponent(event.host_id)}`}>{event.host_id}</Link>
                    )}
                  </span>
                </li>
              ))}
            </ol>
          )
        }
      </Loaded>
      {events.hasNextPage && (
        <Group justify="center" mt="md">
          <Button
            variant="default"
            loading={events.isFetchingNextPage}
            onClick={() => events.fetchNextPage()}
          >
            Load older ones
          </Button>
        </Group>
      )}
    </Screen>
  );
}
