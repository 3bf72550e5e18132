import { Box, Group } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { keys } from "../api/keys";
import type { Schedule } from "../api/types";
import { DataTable } from "../components/DataTable";
import { useListChange } from "../components/useListChange";
import { When } from "../format/Elapsed";
import { GuardedButton } from "../may/GuardedButton";
import { useWhyNotOf } from "../may/useMay";
import { Confirm } from "../shell/Confirm";
import { deleteSchedule, pauseOrResume, schedulesQuery } from "./queries";

/** Recurring jobs. Nothing is shown while there are none. */
export function Schedules() {
  const { data } = useQuery(schedulesQuery);
  if (!data || data.items.length === 0) return null;
  return (
    <Box mb="md">
      <DataTable
        label="Recurring jobs"
        columns={["Recurring job", "Every", "Next run", "Last run", "User", "State"]}
        actions
      >
        {data.items.map((schedule) => (
          <Row key={schedule.id} schedule={schedule} />
        ))}
      </DataTable>
    </Box>
  );
}

function Row({ schedule }: { schedule: Schedule }) {
  const [asked, setAsked] = useState(false);
  const whyNot = useWhyNotOf(schedule.user, "schedule");
  const after = useListChange(keys.schedules, () => setAsked(false));
  const change = useMutation({ mutationFn: pauseOrResume, ...after });
  const remove = useMutation({ mutationFn: deleteSchedule, ...after });
  const verb = schedule.paused_at === null ? "Pause" : "Resume";
  return (
    <tr>
      <td>{schedule.name}</td>
      <td>
        <code>{schedule.every}</code> {schedule.time_zone}
      </td>
      <td>{schedule.next_at ? <When at={schedule.next_at} /> : "–"}</td>
      <td>
        {schedule.last_at && schedule.last_job ? (
          <Link to={`/jobs/${schedule.last_job}`}>
            <When at={schedule.last_at} />
          </Link>
        ) : (
          "–"
        )}
      </td>
      <td>{schedule.user}</td>
      <td>{schedule.message || "active"}</td>
      <td>
        <Group gap="xs" wrap="nowrap" justify="flex-end">
          <GuardedButton
            size="xs"
            variant="default"
            whyNot={whyNot}
            loading={change.isPending}
            aria-label={`${verb} ${schedule.name}`}
            onClick={() => change.mutate(schedule)}
          >
            {verb}
          </GuardedButton>
          <GuardedButton
            size="xs"
            variant="default"
            whyNot={whyNot}
            aria-label={`Delete ${schedule.name}`}
            onClick={() => setAsked(true)}
          >
            Delete
          </GuardedButton>
        </Group>
        {asked && (
          <Confirm
            title={`Delete the schedule of ${schedule.name}?`}
            action="Delete the schedule"
            pending={remove.isPending}
            onConfirm={() => remove.mutate(schedule.id)}
            onClose={() => setAsked(false)}
          >
            It submits no more jobs. Those that it has submitted stay.
          </Confirm>
        )}
      </td>
    </tr>
  );
}
