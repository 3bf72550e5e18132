import { Button } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "react-router";
import { setCordon } from "../api/commands";
import { keys } from "../api/keys";
import type { Gpu, Host } from "../api/types";
import { plural, size } from "../format/size";
import { Icon } from "../shell/Icon";
import classes from "./HostCard.module.css";

interface Props {
  host: Host;
  /** Names of jobs by their id, as far as they are known. */
  names: Record<string, string>;
}

export function HostCard({ host, names }: Props) {
  const queries = useQueryClient();
  const cordoned = host.state === "cordoned";
  const cordon = useMutation({
    mutationFn: setCordon,
    onError: (error) => notifications.show({ color: "red", message: error.message }),
    onSettled: () => queries.invalidateQueries({ queryKey: [keys.hosts] }),
  });
  const free = host.gpus.filter((gpu) => gpu.state === "free").length;
  return (
    <section className={`card ${classes.host}`} aria-label={`Host ${host.id}`}>
      <div className={classes.head}>
        <h2 className={classes.name}>{host.id}</h2>
        <span className={classes.facts}>
          {host.runtime} · {host.address} · {free} of {plural(host.gpus.length, "GPU")} free
        </span>
        {!host.reachable && (
          <span className={classes.trouble}>
            <Icon name="alert" size={14} /> not reachable{host.error && `: ${host.error}`}
          </span>
        )}
        {cordoned && (
          <span className={classes.cordoned}>
            <Icon name="pause" size={14} /> cordoned: its jobs go on, no others come
          </span>
        )}
        <Button
          className={classes.action}
          size="xs"
          variant="default"
          loading={cordon.isPending}
          onClick={() => cordon.mutate({ id: host.id, cordoned: !cordoned })}
        >
          {cordoned ? "Uncordon" : "Cordon"}
        </Button>
      </div>
      <ul className={classes.gpus}>
        {host.gpus.map((gpu) => (
          <GpuTile key={gpu.uuid} gpu={gpu} names={names} />
        ))}
      </ul>
    </section>
  );
}

function GpuTile({ gpu, names }: { gpu: Gpu; names: Record<string, string> }) {
  return (
    <li className={classes.gpu} data-used={gpu.jobs.length > 0} title={gpu.uuid}>
      <span className={classes.index}>GPU {gpu.index}</span>
      <span className={classes.kind}>
        {gpu.type}
        {gpu.memory_bytes > 0 && ` · ${size(gpu.memory_bytes)}`}
      </span>
      {gpu.state === "free" && <span className={classes.free}>free</span>}
      {gpu.fault && <span className={classes.taken}>unhealthy: {gpu.fault}</span>}
      {gpu.occupied_by && <span className={classes.taken}>used by {gpu.occupied_by}</span>}
      {gpu.jobs.map((id) => (
        <Link key={id} to={`/jobs/${id}`} className={classes.job}>
          {names[id] ?? id}
        </Link>
      ))}
      {gpu.utilization !== null && <span className={classes.kind}>{Math.round(gpu.utilization)}% busy</span>}
    </li>
  );
}
