import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { policyQuery } from "../../api/policyQueries";
import type { Cluster, Host } from "../../api/types";
import { Figure, FigureList } from "../../components/Figures";
import { Ago } from "../../format/Elapsed";
import { count, plural } from "../../format/number";
import { GROUPS, groupCount } from "../../jobs/states";

export function Figures({ cluster, hosts }: { cluster: Cluster; hosts: Host[] }) {
  const { data: policy } = useQuery(policyQuery);
  const away = hosts.filter((host) => !host.reachable && host.state !== "parked").length;
  const parked = hosts.filter((host) => host.state === "parked").length;
  const closed = hosts.filter(
    (host) => host.reachable && host.state !== "active" && host.state !== "parked",
  ).length;
  const trouble = [
    away && `${away} not reachable`,
    closed && `${closed} cordoned`,
    parked && `${parked} parked`,
  ]
    .filter(Boolean)
    .join(", ");
  const wanted = cluster.desired_hosts === null ? "" : `${cluster.desired_hosts} desired`;
  const utility = cluster.utility === null ? "" : `; utility ${cluster.utility.toFixed(2)}`;
  return (
    <FigureList>
      <Figure name="GPUs in use" note={`of ${cluster.gpus}, ${cluster.gpus_free} free${utility}`}>
        {cluster.gpus_used}
      </Figure>
      <Figure name="Jobs running" note={`${count(groupCount("succeeded", cluster.jobs))} succeeded so far`}>
        <Link to="/jobs?show=running">{groupCount("running", cluster.jobs)}</Link>
      </Figure>
      <Figure
        name={GROUPS.waiting.name}
        note={cluster.gpus_wanted ? `for ${plural(cluster.gpus_wanted, "GPU")}` : "no jobs wait"}
      >
        <Link to="/jobs?show=waiting">{groupCount("waiting", cluster.jobs)}</Link>
      </Figure>
      <Figure
        name="Failed in 24 h"
        note={cluster.failed_24h > 0 ? "each with its last error" : "none"}
        trouble={cluster.failed_24h > 0}
      >
        <Link to="/jobs?show=failed&ended=24h">{count(cluster.failed_24h)}</Link>
      </Figure>
      <Figure name="Hosts" note={trouble || wanted || "all reachable"} trouble={away > 0}>
        <Link to="/hosts">{cluster.hosts}</Link>
      </Figure>
      <Figure
        name="Policy"
        words
        note={policy && (policy.problem || (policy.since ? <Since at={policy.since} /> : "the default"))}
        trouble={policy !== undefined && policy.problem !== ""}
      >
        <Link to="/policy">
          {policy?.algorithm ?? "–"}
          {policy && policy.metric !== "default" && ` · ${policy.metric}`}
        </Link>
      </Figure>
    </FigureList>
  );
}

function Since({ at }: { at: string }) {
  return (
    <>
      set <Ago at={at} />
    </>
  );
}
