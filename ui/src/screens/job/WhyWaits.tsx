import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { holdersQuery, hostsQuery, waitingQuery } from "../../api/queries";
import type { JobDetail } from "../../api/types";
import { Panel } from "../../components/Panel";
import { ordinal, plural } from "../../format/number";
import { duration, utc } from "../../format/time";
import { useNow } from "../../format/useNow";
import { expectedEnd } from "../../jobs/Expected";
import { WhatHelps } from "./WhatHelps";
import classes from "./WhyWaits.module.css";
import { byEnd, roomOf } from "./waiting";

const MOST = 5;

/** Jobs before a waiting job, missing GPUs by host, and possible remedies. */
export function WhyWaits({ job }: { job: JobDetail }) {
  const now = useNow();
  const { data: waiting } = useQuery(waitingQuery);
  const { data: hosts } = useQuery(hostsQuery);
  const { data: holders } = useQuery(holdersQuery);
  if (!waiting || !hosts || !holders) return <Skeleton height={190} mb={18} />;
  const place = waiting.indexOf(job.id) + 1;
  const rooms = roomOf(hosts);
  const blockers = byEnd(holders);
  return (
    <div className={classes.panel}>
      <Panel title="Why it waits" action={<WhatHelps job={job} />}>
        <Wait job={job} now={now} />
        <div className={classes.columns}>
          <div>
            <h3 className={classes.title}>Free GPUs</h3>
            <ul className={classes.list}>
              {rooms.slice(0, MOST).map(({ host, free, gpus }) => (
                <li key={host}>
                  <Link to={`/hosts#${encodeURIComponent(host)}`}>{host}</Link> {free} of{" "}
                  {plural(gpus, "GPU")} free
                  {free < job.required_gpus && `, ${job.required_gpus - free} short`}
                </li>
              ))}
            </ul>
            {rooms.length > MOST && (
              <p className={classes.more}>and {plural(rooms.length - MOST, "more host")}</p>
            )}
            {rooms.length === 0 && <p className={classes.more}>No host takes jobs now.</p>}
          </div>
          <div>
            <h3 className={classes.title}>Jobs that hold GPUs, by expected end</h3>
            <ul className={classes.list}>
              {blockers.slice(0, MOST).map((each) => (
                <li key={each.id}>
                  <Link to={`/jobs/${each.id}`}>{each.name}</Link> {plural(each.gpus.length, "GPU")} of{" "}
                  {[...new Set(each.gpus.map((gpu) => gpu.host))].join(", ")}
                  {each.eta?.end && (
                    <>
                      ,{" "}
                      <time dateTime={each.eta.end} title={utc(each.eta.end)}>
                        {expectedEnd(each.eta, now)}
                      </time>
                    </>
                  )}
                </li>
              ))}
            </ul>
            {blockers.length === 0 && <p className={classes.more}>None.</p>}
          </div>
        </div>
        {place > 0 && (
          <p className={classes.more}>
            {waiting.length === 1
              ? "No other job waits."
              : `${ordinal(place)} of ${waiting.length} in line by time of submission; the policy may choose another order.`}
          </p>
        )}
      </Panel>
    </div>
  );
}

/** Bar of the time waited, and the predicted time still to wait. */
function Wait({ job, now }: { job: JobDetail; now: number }) {
  if (!job.eta?.start) return null;
  const waited = Math.max(0, now - Date.parse(job.submitted_at));
  const left = Math.max(0, Date.parse(job.eta.start) - now);
  const share = waited + left > 0 ? waited / (waited + left) : 1;
  const text = `waited ${duration(waited / 1000)}, about ${duration(left / 1000, 1)} to go`;
  return (
    <div className={classes.wait}>
      <span className={classes.track} role="img" aria-label={text}>
        <span className={classes.past} style={{ width: `${share * 100}%` }} />
      </span>
      <span className={classes.more}>{text}</span>
    </div>
  );
}
