import { Button, Group, NativeSelect, NumberInput, SegmentedControl, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import type { Capacity, Usage } from "../../api/types";
import { capacityQuery, type UsageChoice, usageFile, usageQuery } from "../../api/usageQueries";
import { Figure, FigureList } from "../../components/Figures";
import { amount, money } from "../../format/number";
import { useNow } from "../../format/useNow";
import { Icon } from "../../shell/Icon";
import { LoadedAll } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { useAddressText, useSetAddress } from "../../shell/useAddress";
import { binsOf, costOf, energyOf, shareOf } from "./bars";
import { UsageCharts } from "./UsageCharts";
import classes from "./UsageScreen.module.css";
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

/** Read the chosen report from the address. */
function useChoice() {
  const [address] = useSearchParams();
  const days = SPANS.includes(address.get("days") ?? "") ? (address.get("days") as string) : "30";
  const group = Object.hasOwn(GROUPS, address.get("by") ?? "") ? (address.get("by") as string) : "user";
  const label = useAddressText("label", "project");
  const price = useAddressText("price");
  // Whole days, so that the file's URL and the query key change only once a day.
  const today = useNow(DAY_MS);
  const choice: UsageChoice = {
    since: today - (Number(days) - 1) * DAY_MS,
    by: group.split(",") as UsageChoice["by"],
    label: label.settled,
    price: price.settled.trim() === "" ? null : Number(price.settled) || 0,
  };
  return { days, group, label, price, today, choice };
}

export default function UsageScreen() {
  const { days, group, label, price, today, choice } = useChoice();
  const set = useSetAddress();
  const part = choice.by.includes("label") ? "label" : "user";
  const enabled = part === "user" || label.settled.trim() !== "";
  const rows = useQuery({ ...usageQuery(choice), enabled });
  const byDay = useQuery({ ...usageQuery({ ...choice, by: ["day", part] }), enabled });
  const capacity = useQuery(capacityQuery(choice.since));
  const bins = useMemo(() => binsOf(choice.since, today), [choice.since, today]);
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
          aria-label="Number of days"
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
        {part === "label" && (
          <TextInput
            label="Label"
            value={label.typed}
            error={!label.typed.trim() && "Enter a label"}
            onChange={(event) => label.type(event.currentTarget.value)}
          />
        )}
        <NumberInput
          label="Price of a GPU-hour"
          w={190}
          min={0}
          decimalScale={4}
          placeholder="the service's price"
          value={price.typed}
          onChange={(value) => price.type(String(value))}
        />
      </Group>
      {(enabled || rows.data !== undefined) && (
        <LoadedAll<[Usage[], Usage[], Capacity]>
          queries={[rows, byDay, capacity]}
          title="The usage can't be read"
        >
          {(usage, daily, there) => (
            <div className={classes.stack}>
              <Totals rows={usage} days={there.days} />
              <UsageCharts rows={daily} part={part} capacity={there} bins={bins} />
              {usage.length === 0 ? (
                <Text c="dimmed">No jobs ran in these days. Choose more days, or submit a job.</Text>
              ) : (
                <UsageTable rows={usage} by={choice.by} />
              )}
            </div>
          )}
        </LoadedAll>
      )}
      <Text size="sm" c="dimmed" mt="sm">
        Days are UTC. A job counts while it holds its GPUs; energy only of GPUs that measure it.
      </Text>
    </Screen>
  );
}

/** Totals of the report. */
function Totals({ rows, days }: { rows: Usage[]; days: Capacity["days"] }) {
  const { held, idle, share } = shareOf(days);
  const used = rows.reduce((sum, row) => sum + row.gpu_hours, 0);
  const drawn = energyOf(rows);
  const cost = costOf(rows);
  const priced = rows.some((row) => row.cost !== null);
  return (
    <FigureList>
      <Figure
        name="Share of capacity"
        note={share === null ? "unknown yet" : `${amount(held)} of ${amount(held + idle)} GPU-hours`}
      >
        {share === null ? "–" : `${Math.round(share * 100)}%`}
      </Figure>
      <Figure name="Idle" note="GPU-hours that no job held">
        {share === null ? "–" : amount(idle)}
      </Figure>
      <Figure name="GPU-hours" note="of all jobs">
        {amount(used)}
      </Figure>
      <Figure name="Energy" note="kWh, of GPUs that measure it">
        {drawn === null ? "–" : amount(drawn)}
      </Figure>
      <Figure
        name="Cost"
        note={
          priced && cost === null ? "a GPU type has no price" : priced ? "of all jobs" : "no price is set"
        }
      >
        {money(cost, rows[0]?.currency ?? "")}
      </Figure>
    </FigureList>
  );
}
