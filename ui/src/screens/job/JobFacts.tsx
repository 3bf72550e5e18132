import type { JobDetail } from "../../api/types";
import { Fact, Panel } from "../../components/Panel";
import classes from "../../components/Panel.module.css";
import { Elapsed, When } from "../../format/Elapsed";
import { energy, money } from "../../format/number";
import { size } from "../../format/size";
import { duration } from "../../format/time";
import { useNow } from "../../format/useNow";
import { GpuTiles } from "../../gpus/GpuTiles";
import { isOver } from "../../jobs/states";
import { CopyButton } from "../../shell/CopyButton";
import { gpuSecondsAt } from "./gpuTime";
import { JobNotices } from "./JobNotices";
import { Ports } from "./Ports";

interface Props {
  job: JobDetail;
  /** Time of the reply with the job, epoch ms. */
  readAt: number;
}

export function JobFacts({ job, readAt }: Props) {
  const env = Object.entries(job.env);
  const labels = Object.entries(job.labels);
  return (
    <div className={classes.stack}>
      <Ports job={job} />
      <Panel title="GPUs">
        <p className={classes.gpuLine}>
          <GpuTiles held={job.gpus.length} wanted={job.required_gpus} />
          {!isOver(job.state) && `${job.gpus.length} held, `}
          {job.required_gpus} required
          {job.elastic && ` (elastic, ${job.min_gpus} to ${job.max_gpus})`}
        </p>
        <ul className={classes.list}>
          {job.gpus.map((gpu) => (
            <li key={gpu.uuid}>
              <strong>{gpu.host}</strong> GPU {gpu.index} <span className={classes.uuid}>{gpu.uuid}</span>
            </li>
          ))}
        </ul>
      </Panel>
      <Panel title="Facts">
        <dl className={classes.facts}>
          <Fact name="Id">
            <span className="mono">{job.id}</span>
          </Fact>
          <Fact name="Submitted">
            <When at={job.submitted_at} />
          </Fact>
          <Fact name="Duration">
            <Elapsed start={job.started_at} end={job.finished_at} />
          </Fact>
          <Fact name="GPU time">
            <GpuTime job={job} readAt={readAt} />
          </Fact>
          {job.energy_kwh !== 0 && <Fact name="Energy">{energy(job.energy_kwh)}</Fact>}
          {job.cost !== null && <Fact name="Cost">{money(job.cost, job.currency)}</Fact>}
          {job.exit_code !== null && <Fact name="Exit code">{job.exit_code}</Fact>}
          <Fact name="Image">
            <span className="mono">{job.container_image}</span>
          </Fact>
          <Fact name="Type">{job.type}</Fact>
          <Fact name="Launcher">{job.launcher}</Fact>
          <Fact name="Priority">{job.priority}</Fact>
          {job.user && <Fact name="User">{job.user}</Fact>}
          {job.gpu_type && <Fact name="GPU type">{job.gpu_type}</Fact>}
          {job.gpu_memory_min !== null && <Fact name="GPU memory">at least {size(job.gpu_memory_min)}</Fact>}
          {job.hosts.length > 0 && <Fact name="Hosts">{job.hosts.join(", ")}</Fact>}
          {job.exclude_hosts.length > 0 && <Fact name="Not on hosts">{job.exclude_hosts.join(", ")}</Fact>}
          {job.exclusive && <Fact name="Exclusive">no other job runs on its hosts</Fact>}
          {job.start_after && (
            <Fact name="Earliest start">
              <When at={job.start_after} />
            </Fact>
          )}
          {job.deadline && (
            <Fact name="Deadline">
              <When at={job.deadline} />
            </Fact>
          )}
          {job.max_duration !== null && <Fact name="Time limit">{duration(job.max_duration)}</Fact>}
          <Fact name="Restarts">
            {job.retries} of {job.max_restarts}
          </Fact>
          {job.run_pages.map((url) => (
            <Fact key={url} name="Run page">
              <a href={url} target="_blank" rel="noreferrer" title={url}>
                {URL.canParse(url) ? new URL(url).host : url}
              </a>
            </Fact>
          ))}
          {job.interruptions > 0 && (
            <Fact name="Interrupted">
              {job.interruptions === 1 ? "once" : `${job.interruptions} times`}
              {job.repeated_seconds > 0 && `, ${duration(job.repeated_seconds)} of run time repeated`}
            </Fact>
          )}
          <Fact name="Shared memory">{size(job.shm_size)}</Fact>
          {job.cpus !== null && <Fact name="Processors">{job.cpus} at most</Fact>}
          {job.memory !== null && <Fact name="Memory">{size(job.memory)} at most</Fact>}
          {Object.entries(job.mounts).map(([name, path]) => (
            <Fact key={name} name={`Data set ${name}`}>
              {path}
            </Fact>
          ))}
          {labels.map(([key, value]) => (
            <Fact key={key} name={`Label ${key}`}>
              {value}
            </Fact>
          ))}
        </dl>
      </Panel>
      {job.notify.length > 0 && <JobNotices job={job} />}
      <Panel title="Command" action={<CopyButton text={job.command} />}>
        <pre className={classes.code}>{job.command}</pre>
      </Panel>
      {env.length > 0 && (
        <Panel title="Environment">
          <pre className={classes.code}>{env.map(([key, value]) => `${key}=${value}`).join("\n")}</pre>
        </Panel>
      )}
    </div>
  );
}

/** GPU time of the job. It grows while the job holds its GPUs, like the duration beside it. */
function GpuTime({ job, readAt }: Props) {
  const now = useNow();
  return <>{duration(gpuSecondsAt(job, readAt, now))}</>;
}
