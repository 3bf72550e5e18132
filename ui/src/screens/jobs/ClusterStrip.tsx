import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { hostsQuery } from "../../api/queries";
import type { Gpu } from "../../api/types";
import { plural } from "../../format/number";
import classes from "./ClusterStrip.module.css";

/** GPUs of a host per line. A larger host has several lines. */
const A_LINE = 8;

/** All GPUs of the cluster in a line, with the free count. */
export function ClusterStrip() {
  const { data: hosts } = useQuery(hostsQuery);
  if (!hosts) {
    return (
      <section className={`card ${classes.strip}`} aria-hidden>
        <p className={classes.number}>
          <strong>&nbsp;</strong>
        </p>
      </section>
    );
  }
  const gpus = hosts.flatMap((host) => host.gpus);
  const used = gpus.filter(isUsed).length;
  const away = hosts.filter((host) => !host.reachable).length;
  return (
    <section className={`card ${classes.strip}`} aria-label="Cluster">
      <p className={classes.number}>
        <strong>{used}</strong> of {plural(gpus.length, "GPU")} in use
      </p>
      <div className={classes.hosts} aria-hidden>
        {hosts.map((host) => (
          <span
            key={host.id}
            className={classes.host}
            style={{ "--columns": Math.min(A_LINE, host.gpus.length) } as React.CSSProperties}
          >
            {host.gpus.map((gpu) => (
              <span key={gpu.uuid} className={classes.gpu} data-used={isUsed(gpu)} />
            ))}
          </span>
        ))}
      </div>
      <Link to="/hosts" className={classes.more}>
        {plural(hosts.length, "host")}
        {away > 0 && `, ${away} not reachable`}
      </Link>
    </section>
  );
}

/** Whether a GPU is used, even by a job hidden from the user. */
const isUsed = (gpu: Gpu) => gpu.jobs.length > 0 || gpu.state === "used";
