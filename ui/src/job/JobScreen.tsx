import { Button, Progress, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams } from "react-router";
import { jobQuery } from "../api/queries";
import { CancelDialog } from "../jobs/CancelDialog";
import { StateBadge } from "../jobs/StateBadge";
import { canCancel, isOver } from "../jobs/states";
import { LogView } from "../logs/LogView";
import { ErrorNotice } from "../shell/ErrorNotice";
import { Icon } from "../shell/Icon";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import { Attempts } from "./Attempts";
import { JobEvents } from "./JobEvents";
import { JobFacts } from "./JobFacts";
import classes from "./JobScreen.module.css";

export default function JobScreen() {
  const { id = "" } = useParams();
  const { data: job, error, refetch } = useQuery(jobQuery(id));
  const [cancelling, setCancelling] = useState(false);

  if (!job) {
    return (
      <Screen title={`Job ${id}`}>
        {error ? <ErrorNotice title="The job can't be read" error={error} retry={refetch} /> : <Loading />}
      </Screen>
    );
  }
  return (
    <Screen
      title={job.name}
      actions={
        <>
          <Button
            component={Link}
            to={`/submit?from=${job.id}`}
            variant="default"
            leftSection={<Icon name="repeat" size={14} />}
          >
            Submit again
          </Button>
          {canCancel(job.state) && (
            <Button color="red" variant="outline" onClick={() => setCancelling(true)}>
              Cancel
            </Button>
          )}
        </>
      }
    >
      {error && <ErrorNotice title="This may be out of date" error={error} retry={refetch} />}
      <section className={classes.now} aria-label="State">
        <StateBadge state={job.state} />
        <Text component="span" className={classes.message} data-testid="message">
          {job.message}
        </Text>
        <code className={classes.reason}>{job.reason}</code>
      </section>
      {job.state === "pulling" && (
        <div className={classes.pull}>
          <Progress value={job.pull_percent ?? 0} aria-label="Fetch of the image" animated />
          <Text size="sm" c="dimmed">
            {job.pull_percent === null
              ? "Fetching the image"
              : `${Math.floor(job.pull_percent)}% of the image`}
          </Text>
        </div>
      )}
      <div className={classes.columns}>
        <div className={classes.main}>
          <LogView jobId={job.id} running={!isOver(job.state)} />
          <Attempts tasks={job.tasks} />
          <JobEvents id={job.id} />
        </div>
        <JobFacts job={job} />
      </div>
      <CancelDialog jobs={[job]} opened={cancelling} onClose={() => setCancelling(false)} />
    </Screen>
  );
}
