import { Button, Group, useComputedColorScheme } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { memo } from "react";
import type { Host } from "../../api/types";
import { When } from "../../format/Elapsed";
import { plural } from "../../format/number";
import { size } from "../../format/size";
import { Code } from "../../shell/code";
import { Icon } from "../../shell/Icon";
import { Loading } from "../../shell/Loading";
import { Part } from "../../shell/Part";
import { GpuRows } from "./GpuRows";
import { HostActions } from "./HostActions";
import classes from "./HostCard.module.css";
import { HostResources } from "./HostResources";

const HostHistory = new Code("host history", () => import("./HostHistory")).Component;

interface Props {
  host: Host;
  /** Known names of jobs by id. */
  names: Record<string, string>;
  /** Whether the history is shown. */
  open: boolean;
  onToggle: (host: string) => void;
}

export const HostCard = memo(function HostCard({ host, names, open, onToggle }: Props) {
  const dark = useComputedColorScheme("light") === "dark";
  const { ref, inViewport } = useInViewport<HTMLElement>();
  const free = host.gpus.filter((gpu) => gpu.state === "free").length;
  const simulated = host.gpus.filter((gpu) => gpu.simulated).length;
  const labels = Object.entries(host.labels);
  const facts = [
    host.runtime,
    host.address,
    host.version && `Docker ${host.version}`,
    host.cpus && plural(host.cpus, "CPU"),
    host.memory_bytes && size(host.memory_bytes),
    `${free} of ${plural(host.gpus.length, "GPU")} free`,
  ].filter(Boolean);
  return (
    <section
      ref={ref}
      className={`card ${classes.host}`}
      style={{ "--rows": host.gpus.length } as React.CSSProperties}
      aria-label={`Host ${host.id}`}
      id={host.id}
    >
      <div className={classes.head}>
        <h2 className={classes.name}>{host.id}</h2>
        <span className={classes.facts}>{facts.join(" · ")}</span>
        {labels.map(([key, value]) => (
          <span key={key} className={classes.label}>
            {key}={value}
          </span>
        ))}
        <Group gap={8} ml="auto">
          <Button size="xs" variant="default" aria-expanded={open} onClick={() => onToggle(host.id)}>
            {open ? "Hide history" : "History"}
          </Button>
          <HostActions host={host} />
        </Group>
      </div>
      {host.state === "parked" && (
        <p className={classes.cordoned}>
          <Icon name="pause" size={14} />
          <span>Parked: not used until the policy needs it.</span>
        </p>
      )}
      {host.state === "emptying" && (
        <p className={classes.cordoned}>
          <Icon name="pause" size={14} />
          <span>Being parked: elastic jobs leave, no others start.</span>
        </p>
      )}
      {!host.reachable && host.state !== "parked" && (
        <p className={classes.trouble}>
          <Icon name="alert" size={14} />
          <span>
            Not reachable
            {host.lost_at && (
              <>
                {" "}
                (lost <When at={host.lost_at} />)
              </>
            )}
            {host.error && `: ${host.error}`}. Connecting again.
          </span>
        </p>
      )}
      {host.state === "cordoned" && (
        <p className={classes.cordoned}>
          <Icon name="pause" size={14} />
          <span>Cordoned: its jobs continue, no others start.</span>
        </p>
      )}
      {host.state === "draining" && (
        <p className={classes.cordoned}>
          <Icon name="pause" size={14} />
          <span>
            Draining: its jobs leave
            {host.drain_until && (
              <>
                ; the remaining ones are stopped at <When at={host.drain_until} />
              </>
            )}
            .
          </span>
        </p>
      )}
      {host.problems.map((problem) => (
        <p key={problem.code} className={classes.cordoned}>
          <Icon name="alert" size={14} />
          <span>{problem.message}</span>
        </p>
      ))}
      {host.gpus.length === 0 && (
        <p className={classes.facts}>
          No GPU was found there. Check the NVIDIA driver and the container toolkit, or use simulated GPUs:
          schedulearn hosts add --simulate-gpus N.
        </p>
      )}
      {simulated > 0 && (
        <p className={classes.cordoned}>
          <Icon name="alert" size={14} /> {plural(simulated, "GPU")} of this host{" "}
          {simulated === 1 ? "is" : "are"} simulated: jobs there have no real GPU.
        </p>
      )}
      <HostResources host={host} seen={inViewport} />
      {open && (
        <Part what="history" fallback={<Loading />}>
          <HostHistory host={host.id} gpus={host.gpus.length > 0} />
        </Part>
      )}
      {host.gpus.length > 0 && <GpuRows host={host} names={names} dark={dark} seen={inViewport} />}
    </section>
  );
});
