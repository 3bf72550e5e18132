import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { jobNoticesQuery } from "../../api/queries";
import type { JobDetail, Notice } from "../../api/types";
import { Panel } from "../../components/Panel";
import classes from "../../components/Panel.module.css";
import { Ago } from "../../format/Elapsed";
import { Loaded } from "../../shell/Loaded";

/** Recipients of a job's notices, and what became of each notice. The key `notify` is empty for those who may not
 * change the job. */
export function JobNotices({ job }: { job: JobDetail }) {
  const notices = useQuery(jobNoticesQuery(job.id));
  return (
    <Panel title="Notices">
      <Text size="sm">To {job.notify.join(", ")}</Text>
      <Loaded query={notices} title="The notices can't be read">
        {({ items }) => (
          <ul className={classes.list} aria-label="Notices">
            {items.map((notice) => (
              <li key={notice.id}>
                {sentence(notice)} <Ago at={notice.last_at ?? notice.created_at} />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Panel>
  );
}

function sentence({ event, to, state, error, tries }: Notice): string {
  if (state === "sent") return `${event}: accepted by ${to}`;
  if (state === "failed") return `${event}: given up for ${to}: ${error},`;
  return tries > 0 ? `${event}: not accepted by ${to}: ${error}, tried` : `${event}: waits for ${to}, since`;
}
