import { Button, Group, SegmentedControl, Text, Tooltip } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useSearchParams } from "react-router";
import { timelineQuery } from "../api/queries";
import { usePolicyMarkers } from "../chart/usePolicyMarkers";
import { shareColors } from "../format/color";
import { duration, when } from "../format/time";
import { useNow } from "../format/useNow";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Icon } from "../shell/Icon";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import { addressOf, loadedFor, SPANS, type SpanName, windowOf } from "./address";
import { focusOf, lanesOf, moved, type Window, zoomed } from "./lanes";
import { TimelineCanvas } from "./TimelineCanvas";

export default function TimelineScreen() {
  const [address, setAddress] = useSearchParams();
  const now = useNow();
  const given = windowOf(address, now);
  const [dragged, setDragged] = useState<Window | null>(null);
  const shown = dragged ?? given.window;
  const [settled] = useDebouncedValue(dragged, 300);
  useEffect(() => {
    if (!settled) return;
    setAddress(addressOf(settled), { replace: true });
    setDragged((current) => (current === settled ? null : current));
  }, [settled, setAddress]);

  const loaded = loadedFor(shown, now);
  const { data, error, refetch } = useQuery(timelineQuery(loaded.from, loaded.to));
  const lanes = useMemo(() => {
    if (!data) return [];
    shareColors(data.spans.filter((span) => span.finished_at === null).map((span) => span.job));
    return lanesOf(data);
  }, [data]);
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
            aria-label="How much time, up to now"
            data={Object.keys(SPANS)}
            value={dragged ? "" : given.name}
            onChange={(name) => {
              setDragged(null);
              setAddress({ span: name as SpanName }, { replace: true });
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
      {error && <ErrorNotice title="The timeline can't be read" error={error} retry={refetch} />}
      {!data && !error && <Loading />}
      {data && lanes.length === 0 && <p>No GPU yet: add a host, or serve with --simulate-gpus.</p>}
      {data && lanes.length > 0 && (
        <section className="card" style={{ padding: 12 }} aria-label="Timeline">
          <TimelineCanvas
            lanes={lanes}
            window={shown}
            now={Math.max(now, Date.parse(data.until))}
            markers={markers}
            onWindow={setDragged}
          />
        </section>
      )}
      {data && (
        <Text size="sm" c="dimmed" mt="sm">
          {duration((shown.to - shown.from) / 1000)} up to {when(shown.to, now)}. Drag to move, Ctrl and the
          wheel to zoom, click a bar for its job. The pale beginning of a bar is the time until its container
          ran.
        </Text>
      )}
      {data && !data.complete && (
        <Text size="sm" mt={4}>
          <Icon name="alert" size={13} /> There is more than can be shown at once: the oldest attempts of this
          time are left out. Show less time.
        </Text>
      )}
    </Screen>
  );
}
