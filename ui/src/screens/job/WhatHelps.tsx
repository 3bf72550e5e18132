import { Button } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "react-router";
import { expectJob } from "../../api/commands";
import { policyQuery, previewQuery } from "../../api/policyQueries";
import type { JobDetail } from "../../api/types";
import { clock } from "../../format/clock";
import { plural } from "../../format/number";
import { specOf } from "../../jobs/values";
import { useWhyNot } from "../../may/useMay";
import classes from "./WhyWaits.module.css";
import { fewer } from "./waiting";

/** Policies under which a job may start sooner. They start jobs out of order, or reallocate GPUs. */
const OTHERS = ["backfill", "goodput"];
const SOON_MS = 15_000;

interface Help {
  text: string;
  to: string;
  action: string;
}

/** Button that looks for ways to start the job sooner. It checks whether the job would start at once with fewer GPUs
 * or under another policy. */
export function WhatHelps({ job }: { job: JobDetail }) {
  const maySubmit = useWhyNot("submit") === null;
  const queries = useQueryClient();
  const ask = useMutation({
    mutationFn: async (): Promise<Help[]> => {
      const found: Help[] = [];
      for (const gpus of job.elastic ? [] : fewer(job.required_gpus)) {
        const eta = await expectJob({ ...specOf(job), required_gpus: gpus });
        if (!eta.start || Date.parse(eta.start) - clock.now() > SOON_MS) continue;
        const to = `/submit?from=${job.id}&gpus=${gpus}`;
        found.push({
          text: `With ${plural(gpus, "GPU")} it would start now.`,
          to,
          action: `Clone with ${plural(gpus, "GPU")}`,
        });
        break;
      }
      const policy = await queries.fetchQuery(policyQuery);
      const known = policy.available.map((kind) => kind.name);
      for (const algorithm of OTHERS) {
        if (algorithm === policy.algorithm || !known.includes(algorithm)) continue;
        const { changes } = await queries.fetchQuery(
          previewQuery({ algorithm, metric: "default", params: {} }),
        );
        if (!changes.some((change) => change.job === job.id && change.action === "start")) continue;
        found.push({ text: `${algorithm} would start it now.`, to: "/policy", action: "See the policies" });
      }
      return found;
    },
    onError: (error) => notifications.show({ color: "red", message: error.message }),
  });
  if (!ask.data)
    return (
      <Button size="xs" variant="default" loading={ask.isPending} onClick={() => ask.mutate()}>
        What would help?
      </Button>
    );
  return (
    <div role="status" aria-label="What would help">
      <ul className={classes.helps}>
        {ask.data.map(({ text, to, action }) => (
          <li key={text}>
            {text} {(to === "/policy" || maySubmit) && <Link to={to}>{action}</Link>}
          </li>
        ))}
        {ask.data.length === 0 && <li>Neither fewer GPUs nor another policy helps: it must wait.</li>}
      </ul>
    </div>
  );
}
