import { Button, Group, NativeSelect, NumberInput, SegmentedControl, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { type UsageChoice, usageFile, usageQuery } from "../api/queries";
import { useNow } from "../format/useNow";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Icon } from "../shell/Icon";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import { useAddressText, useSetAddress } from "../shell/useAddress";
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
  const [address] = useSearchParams();
  const set = useSetAddress();
  const days = SPANS.includes(address.get("days") ?? "") ? (address.get("days") as string) : "30";
  const group = Object.hasOwn(GROUPS, address.get("by") ?? "") ? (address.get("by") as string) : "user";
  const by = group.split(",") as UsageChoice["by"];
  const label = useAddressText("label", "project");
  const price = useAddressText("price");
  // Whole days, so that the address of the file and the query's key stand still until the next one.
  const today = useNow(DAY_MS);
  const choice = {
    since: today - (Number(days) - 1) * DAY_MS,
    by,
    label: label.settled,
    price: Number(price.settled) || 0,
  };
  const needsLabel = by.includes("label") && !label.settled.trim();
  const { data, error, refetch } = useQuery({ ...usageQuery(choice), enabled: !needsLabel });

  return (
    <Screen
      title="Usage"
      actions={
        <Button
          component="a"
          href={usageFile(choice)}
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
            value={label.typed}
            error={!label.typed.trim() && "Which one?"}
            onChange={(event) => label.type(event.currentTarget.value)}
          />
        )}
        <NumberInput
          label="Price of a GPU-hour"
          w={190}
          min={0}
          decimalScale={4}
          placeholder="0"
          value={price.typed}
          onChange={(value) => price.type(String(value))}
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
