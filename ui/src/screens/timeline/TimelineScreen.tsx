import { Button, Group, NativeSelect, SegmentedControl, Text, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useSearchParams } from "react-router";
import { expectedQuery, timelineQuery } from "../../api/queries";
import { usePolicyMarkers } from "../../chart/usePolicyMarkers";
import { shareColors } from "../../format/color";
import { plural } from "../../format/number";
import { duration, when } from "../../format/time";
import { useNow } from "../../format/useNow";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { useAddressText, useSetAddress } from "../../shell/useAddress";
import { addressOf, loadedFor, SPANS, type SpanName, windowOf } from "./address";
import { Legend } from "./Legend";
import {
  filtered,
  focusOf,
  isBarState,
  lanesOf,
  moved,
  rowsOf,
  STATES,
  type Window,
  waitingLanes,
  zoomed,
} from "./lanes";
import { TimelineCanvas } from "./TimelineCanvas";

/** Maximum lanes of waiting jobs, so that the GPUs stay in view. */
const MOST_WAITING = 10;

export default function TimelineScreen() {
  const [address, setAddress] = useSearchParams();
  const set = useSetAddress();
  const text = useAddressText("q");
  const show = address.get("show");
  const state = isBarState(show) ? show : "";
  /** Change the window in the address. The filters stay. */
  const setWindow = useCallback(
    (window: Record<string, string>) => {
      const next = new URLSearchParams(location.search);
      for (const name of ["span", "from", "to"]) next.delete(name);
      for (const [name, value] of Object.entries(window)) next.set(name, value);
      setAddress(next, { replace: true });
    },
    [setAddress],
  );
  const now = useNow();
  const given = windowOf(address, now);
  const [dragged, setDragged] = useState<Window | null>(null);
  const shown = dragged ?? given.window;
  const [settled] = useDebouncedValue(dragged, 300);
  useEffect(() => {
    if (!settled) return;
    setWindow(addressOf(settled));
    setDragged((current) => (current === settled ? null : current));
  }, [settled, setWindow]);

  const loaded = loadedFor(shown, now);
  const timeline = useQuery(timelineQuery(loaded.from, loaded.to));
  const { data } = timeline;
  const live = loaded.to === null;
  const { data: foreseen } = useQuery({ ...expectedQuery, enabled: live });
  const items = live ? foreseen?.items : undefined;
  const all = useMemo(() => {
    if (!data) return [];
    // Only present data says who runs. Past data must not take the colours from other screens.
    if (live) shareColors(data.spans.filter((span) => span.finished_at === null).map((span) => span.job));
    return lanesOf(data, items);
  }, [data, items, live]);
  const waiting = useMemo(
    () => filtered(waitingLanes(items ?? []), text.settled, state),
    [items, text.settled, state],
  );
  const lanes = useMemo(
    () => rowsOf([...waiting.slice(0, MOST_WAITING), ...filtered(all, text.settled, state)]),
    [all, waiting, text.settled, state],
  );
  const markers = usePolicyMarkers();
  const around = focusOf(shown, now);
  const buttons = [
    { name: "Earlier", text: "←", change: moved(shown, -0.5) },
    { name: "Later", text: "→", change: moved(shown, 0.5) },
    { name: "Show less time", text: "+", change: zoomed(shown, 0.5, around) },
    { name: "Show more time", text: "−", change: zoomed(shown, 2, around) },
  ];
  return (
    <Screen
      title="Timeline"
      actions={
        <Group gap={8}>
          <SegmentedControl
            size="xs"
            aria-label="Time range, until now"
            data={Object.keys(SPANS)}
            value={dragged ? "" : given.name}
            onChange={(name) => {
              setDragged(null);
              setWindow({ span: name as SpanName });
            }}
          />
          {buttons.map(({ name, text, change }) => (
            <Tooltip key={name} label={name}>
              <Button
                size="xs"
                px={10}
                variant="default"
                aria-label={name}
                onClick={() => setDragged(change)}
              >
                {text}
              </Button>
            </Tooltip>
          ))}
        </Group>
      }
    >
      <Loaded query={timeline} title="The timeline can't be read">
        {({ until, complete, windows }) => (
          <>
            {all.length === 0 && <p>No GPUs yet: add a host, or start the service with --simulate-gpus.</p>}
            {all.length > 0 && (
              <Group gap={8} mb="sm">
                <TextInput
                  size="xs"
                  w={230}
                  aria-label="Job, user or host contains"
                  placeholder="Job, user or host"
                  data-search
                  leftSection={<Icon name="search" />}
                  value={text.typed}
                  onChange={(event) => text.type(event.currentTarget.value)}
                />
                <NativeSelect
                  size="xs"
                  aria-label="State"
                  data={[
                    { value: "", label: "any state" },
                    ...Object.entries(STATES).map(([value, label]) => ({ value, label })),
                  ]}
                  value={state}
                  onChange={(event) => set("show", event.currentTarget.value || null)}
                />
              </Group>
            )}
            {all.length > 0 && lanes.length === 0 && <p>Nothing in this time matches.</p>}
            {lanes.length > 0 && (
              <section className="card" style={{ padding: 12 }} aria-label="Timeline">
                <TimelineCanvas
                  lanes={lanes}
                  window={shown}
                  now={Math.max(now, Date.parse(until))}
                  markers={markers}
                  maintenance={windows}
                  onWindow={setDragged}
                />
                <Legend />
              </section>
            )}
            <Text size="sm" c="dimmed" mt="sm">
              {duration((shown.to - shown.from) / 1000)} up to {when(shown.to, now)}.{" "}
              {waiting.length > MOST_WAITING &&
                `${plural(waiting.length - MOST_WAITING, "more job")} wait and are not shown. `}
              Drag to move, Ctrl and the wheel to zoom, click a bar to open its job. Keyboard: arrows move
              between jobs, with Shift in time.
            </Text>
            {!complete && (
              <Text size="sm" mt={4}>
                <Icon name="alert" size={13} /> Too many attempts: the oldest ones of this time are not shown.
                Choose a shorter time.
              </Text>
            )}
          </>
        )}
      </Loaded>
    </Screen>
  );
}
