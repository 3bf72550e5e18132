import { SegmentedControl, useComputedColorScheme } from "@mantine/core";
import { memo, type PointerEvent, useDeferredValue, useRef, useState } from "react";
import { Link } from "react-router";
import type { Gpu, Host, Job } from "../../api/types";
import { jobColor, shareColors } from "../../format/color";
import { fillOf, lookOf, type Measure, mostWatts, runsOf } from "../../gpus/gpuLook";
import { candidates, type Offer } from "./candidates";
import { GpuCard } from "./GpuCard";
import classes from "./GpuMap.module.css";

interface Props {
  hosts: Host[];
  /** Known names of jobs by id. */
  names: Record<string, string>;
  /** Job of the queue under the pointer. Hosts that it could start on are highlighted. */
  pointed: Job | null;
}

/** Maximum number of hosts for large squares with the names of jobs. */
const FEW = 12;
/** GPUs of a host per line. */
const A_LINE = 8;

const MEASURES: { value: Measure; label: string }[] = [
  { value: "busy", label: "busy" },
  { value: "memory", label: "memory" },
  { value: "power", label: "power" },
];

interface Over {
  host: string;
  uuid: string;
  x: number;
  y: number;
  room: number;
}

/** Map of all GPUs of all hosts. The colour and name show the job. The fill of a square shows load, memory or power.
 * Faults are shown too. */
export function GpuMap({ hosts, names, pointed }: Props) {
  const dark = useComputedColorScheme("light") === "dark";
  // Draw the first hosts at once, the others when there is time.
  const ready = useDeferredValue(hosts, hosts.slice(0, FEW));
  const [measure, setMeasure] = useState<Measure>("busy");
  shareColors(hosts.flatMap((host) => host.gpus.flatMap((gpu) => gpu.jobs)));
  const mostW = measure === "power" ? mostWatts(hosts) : 0;
  const few = hosts.length <= FEW;
  const offers = pointed && candidates(hosts, pointed);
  const [over, setOver] = useState<Over | null>(null);
  const map = useRef<HTMLDivElement>(null);
  // One listener and one card for all tiles, of which there may be 800.
  function onPointerOver(event: PointerEvent) {
    const tile = (event.target as Element).closest<HTMLElement>("[data-uuid]");
    const area = map.current?.getBoundingClientRect();
    if (!tile || !area) return setOver(null);
    const { uuid = "", host = "" } = tile.dataset;
    const box = tile.getBoundingClientRect();
    setOver({ uuid, host, x: box.left - area.left, y: box.bottom - area.top + 6, room: area.width });
  }
  const host = over && hosts.find((each) => each.id === over.host);
  const gpu = host?.gpus.find((each) => each.uuid === over?.uuid);
  return (
    <section className={`card ${classes.panel}`} aria-label="GPUs">
      <div className={classes.head}>
        <h2 className="section-title">GPUs</h2>
        <ul className={classes.legend}>
          <li>
            <span className={classes.sample} data-kind="job" /> job, one color each
          </li>
          <li>
            <span className={classes.sample} data-kind="free" /> free
          </li>
          <li>
            <span className={classes.sample} data-kind="foreign" /> used by others
          </li>
          <li>
            <span className={classes.sample} data-kind="fault" /> fault or cordoned
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
      <div
        ref={map}
        className={classes.map}
        onPointerOver={onPointerOver}
        onPointerLeave={() => setOver(null)}
      >
        <ul className={classes.hosts} data-testid="gpu-map" data-few={few} data-lit={offers !== null}>
          {ready.map((each) => (
            <HostGpus
              key={each.id}
              host={each}
              names={names}
              dark={dark}
              measure={measure}
              mostW={mostW}
              few={few}
              offer={offers?.get(each.id) ?? null}
            />
          ))}
        </ul>
        {over && host && gpu && <GpuCard {...over} gpu={gpu} host={host} names={names} />}
      </div>
    </section>
  );
}

interface HostProps {
  host: Host;
  names: Record<string, string>;
  dark: boolean;
  measure: Measure;
  mostW: number;
  few: boolean;
  /** GPUs offered to the job under the pointer. */
  offer: Offer | null;
}

const HostGpus = memo(function HostGpus({ few, offer, ...shown }: HostProps) {
  const { host, names } = shown;
  const tile = (gpu: Gpu) => <Tile key={gpu.uuid} gpu={gpu} {...shown} />;
  return (
    <li className={classes.host} data-candidate={offer !== null}>
      <Link to={`/hosts#${encodeURIComponent(host.id)}`} className={classes.name}>
        {host.id}
        {offer && ` · ${offer.free} of ${offer.usable} free`}
      </Link>
      {few ? (
        <div className={classes.runs} style={{ "--columns": Math.min(A_LINE, host.gpus.length) } as Style}>
          {runsOf(host.gpus, A_LINE).map((run) => (
            <div key={run[0]?.uuid} className={classes.run} style={{ "--gpus": run.length } as Style}>
              <span className={classes.job} aria-hidden>
                {run[0]?.jobs.map((id) => names[id] ?? id).join(", ")}
              </span>
              <div className={classes.gpus}>{run.map(tile)}</div>
            </div>
          ))}
        </div>
      ) : (
        <div className={classes.gpus}>{host.gpus.map(tile)}</div>
      )}
    </li>
  );
});

type Style = React.CSSProperties;

interface TileProps extends Omit<HostProps, "few" | "offer"> {
  gpu: Gpu;
}

function Tile({ gpu, host, names, dark, measure, mostW }: TileProps) {
  const { kind, text } = lookOf(gpu, host, names);
  const [job] = gpu.jobs;
  const shown = {
    className: classes.gpu,
    "data-kind": kind,
    "data-uuid": gpu.uuid,
    "data-host": host.id,
    style: {
      "--job": job ? jobColor(job, dark) : undefined,
      "--fill": `${fillOf(gpu, measure, mostW)}%`,
    } as Style,
  };
  const index = (
    <span className={classes.index} aria-hidden>
      {gpu.index}
    </span>
  );
  // The keyboard reaches these jobs through the list of jobs. 800 tab stops here would block the rest.
  return job ? (
    <Link to={`/jobs/${job}`} tabIndex={-1} aria-label={text} {...shown}>
      {index}
    </Link>
  ) : (
    <span role="img" aria-label={text} {...shown}>
      {index}
    </span>
  );
}
