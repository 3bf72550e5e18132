import { Progress, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation, useParams, useSearchParams } from "react-router";
import { jobQuery, profileQuery } from "../../api/queries";
import type { JobDetail } from "../../api/types";
import { Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { clock } from "../../format/clock";
import { CANT_RUN, Ends, neverRuns, Starts } from "../../jobs/Expected";
import { Sentence } from "../../jobs/Sentence";
import { StateBadge } from "../../jobs/StateBadge";
import { isOver } from "../../jobs/states";
import { specOf } from "../../jobs/values";
import { LogView } from "../../logs/LogView";
import { CopyButton } from "../../shell/CopyButton";
import { Code } from "../../shell/code";
import { Loaded } from "../../shell/Loaded";
import { Loading } from "../../shell/Loading";
import { Part } from "../../shell/Part";
import { Screen } from "../../shell/Screen";
import { Attempts } from "./Attempts";
import { AT_ERROR, Failure } from "./Failure";
import { JobActions } from "./JobActions";
import { JobEvents } from "./JobEvents";
import { JobFacts } from "./JobFacts";
import classes from "./JobScreen.module.css";
import { progressOf, progressText } from "./training";
import { WhyWaits } from "./WhyWaits";

const Training = new Code("training", () => import("./Training")).Component;
const Files = new Code("files", () => import("./Files")).Component;
const TerminalTab = new Code("terminal", () => import("../../terminal/TerminalTab")).Component;
const TABS = {
  log: "Log",
  training: "Training",
  files: "Files",
  terminal: "Terminal",
  events: "Attempts and events",
  spec: "Spec",
};

export default function JobScreen() {
  const { id = "" } = useParams();
  const query = useQuery(jobQuery(id));
  const job = query.data;
  return (
    <Screen
      title={job?.name ?? `Job ${id}`}
      tab={job && `${job.name} ${job.state}`}
      actions={job && <JobActions job={job} />}
    >
      <Loaded query={query} title="The job can't be read">
        {(found) => <Found job={found} readAt={clock.at(query.dataUpdatedAt)} />}
      </Loaded>
    </Screen>
  );
}

function Found({ job, readAt }: { job: JobDetail; readAt: number }) {
  const [address, setAddress] = useSearchParams();
  const { hash, key } = useLocation();
  const given = address.get("tab") ?? "";
  const tab = Object.hasOwn(TABS, given) ? given : "log";
  // Keeps a shell running while another tab is shown.
  const [shells, setShells] = useState(false);
  if (tab === "terminal" && !shells) setShells(true);
  return (
    <>
      <Now job={job} />
      <Failure job={job} />
      {job.state === "queued" && !["held", "start_after"].includes(job.reason) && <WhyWaits job={job} />}
      <div className={classes.columns}>
        <Tabs
          className={classes.main}
          value={tab}
          onChange={(next) => setAddress(next === "log" ? {} : { tab: next ?? "" }, { replace: true })}
          keepMounted={false}
          keepMountedMode="display-none"
        >
          <Tabs.List>
            {Object.entries(TABS).map(([name, text]) => (
              <Tabs.Tab key={name} value={name}>
                {text}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          <Tabs.Panel value="log">
            <LogView
              jobId={job.id}
              running={!isOver(job.state)}
              tasks={job.tasks}
              find={hash === AT_ERROR ? (job.failure?.line ?? "") : ""}
              line={Number(/^#L(\d+)$/.exec(hash)?.[1]) || null}
              visit={key}
            />
          </Tabs.Panel>
          <Tabs.Panel value="training">
            <Part what="part" fallback={<Loading />}>
              <Training job={job} />
            </Part>
          </Tabs.Panel>
          <Tabs.Panel value="files">
            <Part what="part" fallback={<Loading />}>
              <Files id={job.id} />
            </Part>
          </Tabs.Panel>
          <Tabs.Panel value="terminal" keepMounted={shells}>
            <Part what="part" fallback={<Loading />}>
              <TerminalTab job={job} />
            </Part>
          </Tabs.Panel>
          <Tabs.Panel value="events" className={panel.stack}>
            <Attempts tasks={job.tasks} />
            <JobEvents id={job.id} />
          </Tabs.Panel>
          <Tabs.Panel value="spec">
            <Spec job={job} />
          </Tabs.Panel>
        </Tabs>
        <JobFacts job={job} readAt={readAt} />
      </div>
    </>
  );
}

/** State of the job, its reason, progress and predicted end. */
function Now({ job }: { job: JobDetail }) {
  const { data: profile } = useQuery(profileQuery(job.id, !isOver(job.state)));
  const progress = profile ? progressOf(profile) : null;
  return (
    <section aria-label="State" className={classes.state}>
      {job.description && (
        <Text size="sm" c="dimmed" mb="xs" style={{ overflowWrap: "anywhere" }}>
          {job.description}
        </Text>
      )}
      <div className={classes.now}>
        <StateBadge state={job.state} />
        <Text component="span" className={classes.message} data-testid="message">
          <Sentence text={job.message} />
        </Text>
        <code className={classes.reason}>{job.reason}</code>
      </div>
      {neverRuns(job.eta) && (
        <p className={classes.expected} data-testid="expected">
          {CANT_RUN}
        </p>
      )}
      {job.eta && !neverRuns(job.eta) && (
        <p className={classes.expected} data-testid="expected">
          Expected{" "}
          {(job.state === "queued" || job.state === "pulling") && job.eta.start && (
            <>
              to <Starts eta={job.eta} /> and{" "}
            </>
          )}
          to end <Ends eta={job.eta} />.
        </p>
      )}
      {job.state === "pulling" && (
        <div className={classes.bar}>
          <Progress value={job.pull_percent ?? 0} aria-label="Fetch of the image" animated />
          <Text size="sm" c="dimmed">
            {job.pull_percent === null
              ? "Fetching the image"
              : `${Math.floor(job.pull_percent)}% of the image`}
          </Text>
        </div>
      )}
      {progress !== null && profile && (
        <div className={classes.bar}>
          <Progress value={progress * 100} aria-label="Training" />
          <Text size="sm" c="dimmed">
            {progressText(profile, progress)}
          </Text>
        </div>
      )}
    </section>
  );
}

function Spec({ job }: { job: JobDetail }) {
  const text = JSON.stringify(specOf(job), null, 2);
  return (
    <Panel title="Specification" action={<CopyButton text={text} />}>
      <pre className={`${panel.code} ${classes.spec}`}>{text}</pre>
    </Panel>
  );
}
