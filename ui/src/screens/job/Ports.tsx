import { Anchor } from "@mantine/core";
import type { JobDetail } from "../../api/types";
import { Panel } from "../../components/Panel";
import classes from "../../components/Panel.module.css";
import { When } from "../../format/Elapsed";
import { duration } from "../../format/time";
import { isOver } from "../../jobs/states";
import { useWhyNotOf } from "../../may/useMay";

/** Ports of a job as links to their own origins. It also says when the job ends if nobody uses them. */
export function Ports({ job }: { job: JobDetail }) {
  const ports = Object.entries(job.ports);
  const whyNot = useWhyNotOf(job.user);
  if (ports.length === 0) return null;
  const over = isOver(job.state);
  return (
    <Panel title="Ports">
      <ul className={classes.list}>
        {ports.map(([name, port]) => (
          <li key={name}>
            {over || whyNot !== null ? (
              <strong title={over ? undefined : (whyNot ?? undefined)}>{name}</strong>
            ) : (
              <Anchor
                href={`/api/v1/jobs/${encodeURIComponent(job.id)}/ports/${encodeURIComponent(name)}`}
                target="_blank"
                rel="noopener noreferrer"
              >
                {name}
              </Anchor>
            )}{" "}
            <span className={classes.uuid}>{port}</span>
          </li>
        ))}
      </ul>
      {job.idle_timeout !== null && !over && (
        <p className={classes.gpuLine} data-testid="idle">
          {job.idle_ends_at ? (
            <span>
              Ends at <When at={job.idle_ends_at} seconds /> without a connection.
            </span>
          ) : (
            <span>Ends {duration(job.idle_timeout)} after the last connection.</span>
          )}
        </p>
      )}
    </Panel>
  );
}
