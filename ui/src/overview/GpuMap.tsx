import { SegmentedControl, useComputedColorScheme } from "@mantine/core";
import { memo, useDeferredValue, useState } from "react";
import { Link } from "react-router";
import type { Gpu, Host } from "../api/types";
import { jobColor, shareColors } from "../format/color";
import classes from "./GpuMap.module.css";
import { fillOf, lookOf, type Measure, mostWatts } from "./gpuLook";

interface Props {
  hosts: Host[];
  /** Names of jobs by their id, as far as they are known. */
  names: Record<string, string>;
}

/** So few hosts have room for large squares. */
const FEW = 12;

const MEASURES: { value: Measure; label: string }[] = [
  { value: "busy", label: "busy" },
  { value: "memory", label: "memory" },
  { value: "power", label: "power" },
];

/** Every GPU of every host: its job by colour, how busy it is (or how full, or how hungry) by how far it is filled, and
 * what is wrong with it. */
export function GpuMap({ hosts, names }: Props) {
  const dark = useComputedColorScheme("light") === "dark";
  // The first hosts at once, the others as there is time.
  const ready = useDeferredValue(hosts, hosts.slice(0, FEW));
  const [measure, setMeasure] = useState<Measure>("busy");
  shareColors(hosts.flatMap((host) => host.gpus.flatMap((gpu) => gpu.jobs)));
  const mostW = measure === "power" ? mostWatts(hosts) : 0;
  return (
    <section className={`card ${classes.panel}`} aria-label="GPUs">
      <div className={classes.head}>
        <h2 className="section-title">GPUs</h2>
        <ul className={classes.legend}>
          <li>
            <span className={classes.sample} data-kind="job" /> a job, one colour each
          </li>
          <li>
            <span className={classes.sample} data-kind="free" /> free
          </li>
          <li>
            <span className={classes.sample} data-kind="foreign" /> used by others
          </li>
          <li>
            <span className={classes.sample} data-kind="fault" /> fault or closed
          </li>
        </ul>
        <SegmentedControl
          size="xs"
          aria-label="GPUs are filled by"
          data={MEASURES}
          value={measure}
          onChange={(chosen) => setMeasure(chosen as Measure)}
        />
      </div>
      {hosts.length === 0 && (
        <p className={classes.none}>
          No host yet. <Link to="/hosts">Add one</Link>
        </p>
      )}
      <ul className={classes.hosts} data-testid="gpu-map" data-few={hosts.length <= FEW}>
        {ready.map((host) => (
          <HostGpus key={host.id} host={host} names={names} dark={dark} measure={measure} mostW={mostW} />
        ))}
      </ul>
    </section>
  );
}

const HostGpus = memo(function HostGpus({ host, ...shown }: HostProps) {
  return (
    <li className={classes.host}>
      <Link to={`/hosts#${encodeURIComponent(host.id)}`} className={classes.name}>
        {host.id}
      </Link>
      <div className={classes.gpus}>
        {host.gpus.map((gpu) => (
          <Tile key={gpu.uuid} gpu={gpu} host={host} {...shown} />
        ))}
      </div>
    </li>
  );
});

interface HostProps {
  host: Host;
  names: Record<string, string>;
  dark: boolean;
  measure: Measure;
  mostW: number;
}

function Tile({ gpu, host, names, dark, measure, mostW }: HostProps & { gpu: Gpu }) {
  const { kind, text } = lookOf(gpu, host, names);
  const [job] = gpu.jobs;
  const shown = {
    className: classes.gpu,
    "data-kind": kind,
    title: text,
    style: {
      "--job": job ? jobColor(job, dark) : undefined,
      "--fill": `${fillOf(gpu, measure, mostW)}%`,
    } as React.CSSProperties,
  };
  // Reached by keyboard through the list of jobs; eight hundred stops here would bar the way to the rest.
  return job ? (
    <Link to={`/jobs/${job}`} tabIndex={-1} aria-label={text} {...shown} />
  ) : (
    <span role="img" aria-label={text} {...shown} />
  );
}
