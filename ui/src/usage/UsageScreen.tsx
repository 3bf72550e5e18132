import { Button, Group, NativeSelect, NumberInput, SegmentedControl, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { type UsageChoice, usageFile, usageQuery } from "../api/queries";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Icon } from "../shell/Icon";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import { UsageTable } from "./UsageTable";

const DAY_MS = 86_400_000;
const SPANS = ["7", "30", "90", "365"];
const GROUPS = {
  user: "user",
  day: "day",
  label: "label",
  "day,user": "day and user",
  "day,label": "day and label",
  "user,label": "user and label",
};

export default function UsageScreen() {
  const [address, setAddress] = useSearchParams();
  const days = SPANS.includes(address.get("days") ?? "") ? (address.get("days") as string) : "30";
  const group = Object.hasOwn(GROUPS, address.get("by") ?? "") ? (address.get("by") as string) : "user";
  const by = group.split(",") as UsageChoice["by"];
  const label = address.get("label") ?? "project";
  // Whole days, so that the address of the file and the query's key stand still.
  const [today] = useState(() => Math.floor(Date.now() / DAY_MS) * DAY_MS);
  const given = {
    since: today - (Number(days) - 1) * DAY_MS,
    by,
    label,
    price: Number(address.get("price")) || 0,
  };
  const [choice] = useDebouncedValue(given, 250);
  const needsLabel = by.includes("label") && !label.trim();
  const { data, error, refetch } = useQuery({ ...usageQuery(choice), enabled: !needsLabel });

  function set(name: string, value: string) {
    const next = new URLSearchParams(address);
    if (value) next.set(name, value);
    else next.delete(name);
    setAddress(next, { replace: true });
  }

  return (
    <Screen
      title="Usage"
      actions={
        <Button
          component="a"
          href={usageFile(given)}
          download="usage.csv"
          variant="default"
          leftSection={<Icon name="download" />}
        >
          CSV
        </Button>
      }
    >
      <Group mb="md" gap="sm" align="flex-end">
        <SegmentedControl
          aria-label="How many days"
          data={SPANS.map((value) => ({ value, label: `${value} d` }))}
          value={days}
          onChange={(value) => set("days", value)}
        />
        <NativeSelect
          label="By"
          data={Object.entries(GROUPS).map(([value, text]) => ({ value, label: text }))}
          value={group}
          onChange={(event) => set("by", event.currentTarget.value)}
        />
        {by.includes("label") && (
          <TextInput
            label="Label"
            value={label}
            error={needsLabel && "Which one?"}
            onChange={(event) => {
              const next = new URLSearchParams(address);
              next.set("label", event.currentTarget.value);
              setAddress(next, { replace: true });
            }}
          />
        )}
        <NumberInput
          label="Price of a GPU-hour"
          w={190}
          min={0}
          decimalScale={4}
          placeholder="0"
          value={given.price || ""}
          onChange={(value) => set("price", String(value || ""))}
        />
      </Group>
      {error && <ErrorNotice title="The usage can't be read" error={error} retry={refetch} />}
      {!data && !error && !needsLabel && <Loading />}
      {data?.length === 0 && (
        <Text c="dimmed">Nothing ran in these days. Choose more of them, or submit a job.</Text>
      )}
      {data && data.length > 0 && <UsageTable rows={data} by={choice.by} priced={choice.price > 0} />}
      <Text size="sm" c="dimmed" mt="sm">
        Days are UTC. A job counts while it holds its GPUs; energy as far as GPUs measure it.
      </Text>
    </Screen>
  );
}
