import type { Gpu, Host } from "../../api/types";
import { size } from "../../format/size";
import { lookOf } from "../../gpus/gpuLook";
import { placeOf } from "../../gpus/placeOf";
import classes from "./GpuMap.module.css";

interface Props {
  gpu: Gpu;
  host: Host;
  names: Record<string, string>;
  /** Position on the map in pixels from its left and top. `room` is the map's width. */
  x: number;
  y: number;
  room: number;
}

const WIDE = 250;

/** Tooltip with the details of a GPU, beside it. */
export function GpuCard({ gpu, host, names, x, y, room }: Props) {
  const { reading, utilization } = gpu;
  const facts = [
    utilization !== null && `${Math.round(utilization)}% busy`,
    reading?.memory_bytes != null &&
      `${size(reading.memory_bytes)}${gpu.memory_bytes > 0 ? ` of ${size(gpu.memory_bytes)}` : ""}`,
    reading?.temperature != null && `${Math.round(reading.temperature)} °C`,
    reading?.power_w != null && `${Math.round(reading.power_w)} W`,
  ].filter(Boolean);
  const said = lookOf({ ...gpu, utilization: null, reading: null }, host, names).text;
  return (
    <div
      className={classes.tip}
      role="tooltip"
      style={{ left: Math.max(0, Math.min(x, room - WIDE)), top: y }}
    >
      <strong>
        {gpu.jobs.length > 0 && !gpu.fault ? gpu.jobs.map((id) => names[id] ?? id).join(", ") : said}
      </strong>
      <span>
        {host.id} GPU {gpu.index} · {gpu.type}
      </span>
      {placeOf(gpu) && <span>{placeOf(gpu)}</span>}
      {facts.length > 0 && <span>{facts.join(" · ")}</span>}
      {reading != null && reading.throttle.length > 0 && (
        <span>clocks lowered: {reading.throttle.join(", ")}</span>
      )}
    </div>
  );
}
