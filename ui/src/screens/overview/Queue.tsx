import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { queueQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { count, plural } from "../../format/number";
import { Starts } from "../../jobs/Expected";
import { Sentence } from "../../jobs/Sentence";
import { ReadError } from "../../shell/Loaded";
import classes from "./OverviewScreen.module.css";

interface Props {
  waiting: number;
  /** Called when a job is under the pointer or focused; null: none. */
  onPoint: (job: Job | null) => void;
}

/** Waiting jobs, longest wait first, with the reasons why they wait. */
export function Queue({ waiting, onPoint }: Props) {
  const queue = useQuery(queueQuery);
  const { data } = queue;
  const rest = waiting - (data?.items.length ?? 0);
  return (
    <section className={`card ${classes.panel}`} aria-label="Queue">
      <div className={classes.head}>
        <h2 className="section-title">Queue</h2>
        <span className={classes.why}>longest waiting first</span>
      </div>
      <ReadError queries={[queue]} title="The queue can't be read" />
      {data?.items.length === 0 && (
        <p className={classes.note}>No jobs wait: a new job starts when its GPUs are free.</p>
      )}
      <ol className={classes.queue}>
        {data?.items.map((job) => (
          <li
            key={job.id}
            onPointerEnter={() => onPoint(job)}
            onPointerLeave={() => onPoint(null)}
            onFocus={() => onPoint(job)}
            onBlur={() => onPoint(null)}
          >
            <Link to={`/jobs/${job.id}`} className={classes.job}>
              {job.name}
            </Link>{" "}
            <span className={classes.why}>
              {plural(job.required_gpus, "GPU")}
              {job.user && ` · ${job.user}`}
              {job.eta?.start && " · expected to "}
              <Starts eta={job.eta} />
            </span>
            <div className={classes.why}>
              <Sentence text={job.message} />
            </div>
          </li>
        ))}
      </ol>
      {rest > 0 && data && (
        <Link to="/jobs?show=waiting" className={classes.why}>
          and {count(rest)} more
        </Link>
      )}
    </section>
  );
}
