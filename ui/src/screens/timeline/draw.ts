import type { MaintenanceWindow } from "../../api/types";
import type { Marker } from "../../chart/Chart";
import { timeLabels } from "../../chart/ticks";
import { jobColor } from "../../format/color";
import { type Bar, blockOf, type Lane, reachOf, stateOf, ticksOf, type Window } from "./lanes";

export const HEAD_PX = 34;

/** Width of the host names. */
export const namesPx = (width: number) => (width < 520 ? 74 : 116);

interface Scene {
  lanes: readonly Lane[];
  window: Window;
  now: number;
  markers: readonly Marker[];
  maintenance: readonly MaintenanceWindow[];
  /** Size of the canvas in CSS pixels. */
  width: number;
  height: number;
  lanePx: number;
  /** Scroll position of the lanes. */
  top: number;
  dark: boolean;
  /** Job under the pointer. The bars of other jobs are drawn faintly. */
  hovered: string | null;
  /** Bar chosen with the keyboard. */
  chosen: { row: number; bar: Bar } | null;
}

interface Look {
  ink: string;
  line: string;
  text: string;
  bad: string;
  off: string;
  /** Text colour on a job's colour. */
  onColor: string;
  now: string;
  plate: string;
}

const LIGHT: Look = {
  ink: "#586360",
  line: "#e2e0d8",
  text: "#1b2220",
  bad: "#a3231f",
  off: "#c3c7c4",
  onColor: "#ffffff",
  now: "#0d7261",
  plate: "rgb(255 255 255 / 80%)",
};
const DARK: Look = {
  ink: "#9aa6a2",
  line: "#28312e",
  text: "#d9dfdd",
  bad: "#ff9d96",
  off: "#48524f",
  onColor: "#0d1211",
  now: "#46ad99",
  plate: "rgb(23 30 28 / 80%)",
};

const FONT = "12px ui-sans-serif, system-ui, sans-serif";
const LABELLED_PX = 36;
const HATCH_PX = 6;

interface Pen {
  ctx: CanvasRenderingContext2D;
  scene: Scene;
  look: Look;
  /** Left end of the bars in pixels. */
  names: number;
  x: (ms: number) => number;
  hatch: CanvasPattern | null;
  /** Pattern of maintenance windows. */
  closed: CanvasPattern | null;
  labels: Label[];
}

interface Label {
  text: string;
  x: number;
  y: number;
  room: number;
  color: string;
  /** Whether the label has its own background. It is set where the area below is uneven. */
  plate: boolean;
}

/** Draw only the visible part. The cost grows with the screen, not with the history. */
export function draw(ctx: CanvasRenderingContext2D, scene: Scene) {
  const { width, height, window, lanes, top, lanePx } = scene;
  const names = namesPx(width);
  const look = scene.dark ? DARK : LIGHT;
  const scale = (width - names) / (window.to - window.from);
  const x = (ms: number) => names + (ms - window.from) * scale;
  const pen: Pen = {
    ctx,
    scene,
    look,
    names,
    x,
    hatch: hatchOf(ctx, look.bad),
    closed: hatchOf(ctx, look.off),
    labels: [],
  };
  ctx.clearRect(0, 0, width, height);
  ctx.font = FONT;
  ctx.textBaseline = "middle";
  drawTicks(pen);

  ctx.save();
  ctx.beginPath();
  ctx.rect(0, HEAD_PX, width, height - HEAD_PX);
  ctx.clip();
  const first = Math.max(0, Math.floor(top / lanePx));
  const last = Math.min(lanes.length - 1, Math.floor((top + height - HEAD_PX) / lanePx));
  for (let row = first; row <= last; row++) drawLane(pen, row, first, last);
  for (const label of pen.labels) drawLabel(pen, label);
  if (scene.chosen) outline(pen, scene.chosen.bar, scene.chosen.row);
  drawHosts(pen, first, last);
  ctx.restore();
  drawMarkers(pen);
}

function drawTicks({ ctx, scene, look, names, x }: Pen) {
  const ticks = ticksOf(scene.window, Math.max(2, (scene.width - names) / 90));
  const labels = timeLabels(ticks);
  for (const [index, tick] of ticks.entries()) {
    const at = Math.round(x(tick * 1000)) + 0.5;
    ctx.fillStyle = look.line;
    ctx.fillRect(at, HEAD_PX - 6, 1, scene.height);
    ctx.fillStyle = look.ink;
    ctx.fillText(labels[index] ?? "", at + 4, 12);
  }
}

function drawLane(pen: Pen, row: number, first: number, last: number) {
  const { ctx, scene, look, names, x } = pen;
  const { lanePx, window, width, now, lanes } = scene;
  const lane = lanes[row];
  if (!lane) return;
  const y = HEAD_PX + row * lanePx - scene.top;
  if (row === 0 || lanes[row - 1]?.host !== lane.host) {
    ctx.fillStyle = look.line;
    ctx.fillRect(0, y, width, 1);
  }
  if (lanePx >= 12 && lane.uuid !== "") {
    ctx.fillStyle = look.ink;
    ctx.fillText(String(lane.index), names - 20, y + lanePx / 2);
  }
  if (lane.uuid !== "") drawMaintenance(pen, lane.host, y);
  let drawn = -1;
  for (const bar of lane.bars) {
    const end = reachOf(bar, now);
    if (end < window.from) continue;
    if (bar.claimed > window.to) break;
    const left = Math.max(names, x(bar.claimed));
    const right = Math.min(width, x(end));
    if (right <= drawn) continue; // several bars within a pixel look like one
    const shown = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
    // Adjacent rows of a job form one block. Its name is in the middle of its visible rows.
    const [from, to] = blockOf(lanes, bar, row);
    ctx.globalAlpha = scene.hovered !== null && scene.hovered !== bar.job ? 0.3 : 1;
    drawBar(pen, bar, left, shown, y, { begins: row === from, goesOn: row < to });
    ctx.globalAlpha = 1;
    drawn = left + shown;
    if (lanePx < 10) continue;
    if (shown <= LABELLED_PX) {
      if (lane.uuid === "") pen.labels.push(besideOf(pen, bar, left, left + shown, y + lanePx / 2));
      continue;
    }
    if (row !== Math.max(first, from)) continue;
    const rows = Math.min(last, to) - row + 1;
    if (rows * lanePx < 14) continue;
    pen.labels.push(labelOf(pen, bar, left, shown, y + (rows * lanePx) / 2));
  }
}

/** Draw the maintenance windows of a lane's host below its bars. */
function drawMaintenance({ ctx, scene, names, x, closed }: Pen, host: string, y: number) {
  for (const { hosts, start, end } of scene.maintenance) {
    if (!closed || (hosts.length > 0 && !hosts.includes(host))) continue;
    const left = Math.max(names, x(Date.parse(start)));
    const right = Math.min(scene.width, x(Date.parse(end)));
    if (right <= left) continue;
    ctx.fillStyle = closed;
    ctx.fillRect(left, y + 1, right - left, scene.lanePx - 2);
  }
}

/** Whether a row begins its block, and whether the block continues below. */
interface InBlock {
  begins: boolean;
  goesOn: boolean;
}

function drawBar(pen: Pen, bar: Bar, left: number, shown: number, y: number, block: InBlock) {
  const { ctx, scene, look, x, hatch } = pen;
  const { lanePx, dark, now } = scene;
  const state = stateOf(bar);
  const top = y + 1;
  const height = block.goesOn ? lanePx : lanePx - 2;
  const color = jobColor(bar.job, dark);
  const right = left + shown;
  if (state === "waiting") {
    const begins = Math.min(right, Math.max(left, x(bar.started ?? now)));
    ctx.fillStyle = look.ink;
    ctx.fillRect(left, y + lanePx - 3, begins - left, 1);
    foreseen(ctx, color, begins, right - begins, top, height, block);
    return;
  }
  if (state === "cancelled") {
    ctx.fillStyle = look.off;
    ctx.fillRect(left, top, shown, height);
    return;
  }
  if (state === "failed" && shown > 3 && hatch) {
    tinted(ctx, color, 0.3, left, top, shown, height);
    ctx.fillStyle = hatch;
    ctx.fillRect(left, top, shown, height);
    return;
  }
  const present = state === "running" ? Math.min(right, Math.max(left, x(now))) : right;
  ctx.fillStyle = state === "failed" ? look.bad : color;
  ctx.fillRect(left, top, Math.max(1, present - left), height);
  if (bar.started !== null && bar.started > bar.claimed && shown > 6) {
    // Before the start, the GPU was held but idle.
    ctx.fillStyle = dark ? "rgb(0 0 0 / 45%)" : "rgb(255 255 255 / 55%)";
    ctx.fillRect(left, top, Math.max(0, Math.min(x(bar.started), right) - left), height);
  }
  if (present < right) foreseen(ctx, color, present, right - present, top, height, block);
}

/** Draw the predicted part of a bar. */
function foreseen(
  ctx: CanvasRenderingContext2D,
  color: string,
  left: number,
  wide: number,
  top: number,
  high: number,
  { begins, goesOn }: InBlock,
) {
  if (wide < 1) return;
  tinted(ctx, color, 0.22, left, top, wide, high);
  const [right, bottom] = [left + wide - 0.5, top + high - 0.5];
  ctx.strokeStyle = color;
  ctx.setLineDash([3, 3]);
  ctx.beginPath();
  ctx.moveTo(right, top);
  ctx.lineTo(right, bottom);
  if (begins) ctx.moveTo(left, top + 0.5);
  if (begins) ctx.lineTo(right, top + 0.5);
  if (!goesOn) ctx.moveTo(left, bottom);
  if (!goesOn) ctx.lineTo(right, bottom);
  ctx.stroke();
  ctx.setLineDash([]);
}

function tinted(
  ctx: CanvasRenderingContext2D,
  color: string,
  share: number,
  left: number,
  top: number,
  wide: number,
  high: number,
) {
  const alpha = ctx.globalAlpha;
  ctx.globalAlpha = alpha * share;
  ctx.fillStyle = color;
  ctx.fillRect(left, top, wide, high);
  ctx.globalAlpha = alpha;
}

/** Return the label beside a bar that is too short for it. The bar is a waiting job's, and its lane holds nothing
 * else. */
function besideOf({ ctx, look, scene, names }: Pen, bar: Bar, left: number, right: number, y: number): Label {
  const [before, after] = [left - names, scene.width - right];
  const wide = ctx.measureText(bar.name).width;
  const label = { text: bar.name, y, color: look.text, plate: true };
  if (after > wide + 16 || after >= before) return { ...label, x: right + 8, room: after - 12 };
  return { ...label, x: Math.max(names + 4, left - 8 - wide), room: before - 12 };
}

function labelOf({ look, x, scene }: Pen, bar: Bar, left: number, shown: number, y: number): Label {
  const state = stateOf(bar);
  let [at, room] = [left, shown];
  if (state === "waiting") {
    // The name is on the predicted part if it fits there, else on the waiting line.
    const begins = Math.max(left, x(bar.started ?? scene.now));
    if (left + shown - begins > LABELLED_PX) [at, room] = [begins, left + shown - begins];
  }
  const solid = state === "running" || state === "succeeded" || state === "replaced";
  // The name must end within the solid part, because it is unreadable on the pale part.
  if (state === "running") {
    const present = Math.min(left + shown, Math.max(left, x(scene.now))) - left;
    if (present > LABELLED_PX) room = present;
    else if (shown - present > LABELLED_PX) {
      return {
        text: bar.name,
        x: left + present + 4,
        y,
        room: shown - present - 8,
        color: look.text,
        plate: false,
      };
    }
  }
  const color = solid ? look.onColor : look.text;
  return { text: bar.name, x: at + 4, y, room: room - 8, color, plate: state === "failed" };
}

function outline({ ctx, scene, look, names, x }: Pen, bar: Bar, row: number) {
  const left = Math.max(names, x(bar.claimed));
  const right = Math.min(scene.width, x(reachOf(bar, scene.now)));
  ctx.strokeStyle = look.text;
  ctx.lineWidth = 2;
  ctx.strokeRect(left, HEAD_PX + row * scene.lanePx - scene.top, Math.max(3, right - left), scene.lanePx);
  ctx.lineWidth = 1;
}

/** Draw the host names. A name stays in view as long as one of its lanes does. */
function drawHosts({ ctx, scene, look, names }: Pen, first: number, last: number) {
  const { lanes, lanePx, top } = scene;
  ctx.fillStyle = look.ink;
  for (let row = first; row <= last; row++) {
    const host = lanes[row]?.host;
    if (host === undefined || (row > first && lanes[row - 1]?.host === host)) continue;
    let end = row;
    while (lanes[end + 1]?.host === host) end++;
    const own = HEAD_PX + row * lanePx - top;
    const under = HEAD_PX + (end + 1) * lanePx - top - Math.max(7, lanePx / 2);
    const at = Math.max(own, HEAD_PX) + Math.max(7, lanePx / 2);
    const room = names - (lanes[row]?.uuid === "" ? 4 : 30);
    ctx.fillText(clipped(ctx, host, room), 2, Math.min(at, Math.max(under, own + 7)));
  }
}

function drawMarkers({ ctx, scene, look, names, x }: Pen) {
  ctx.strokeStyle = ctx.fillStyle = look.ink;
  ctx.setLineDash([4, 3]);
  let free = 0;
  for (const { x: seconds, text } of scene.markers) {
    const at = Math.round(x(seconds * 1000)) + 0.5;
    if (at < names || at > scene.width) continue;
    ctx.beginPath();
    ctx.moveTo(at, 20);
    ctx.lineTo(at, scene.height);
    ctx.stroke();
    const wide = ctx.measureText(text).width;
    const left = Math.min(at + 4, scene.width - wide - 2); // not beyond the edge
    if (left < free) continue;
    ctx.fillText(text, left, 26);
    free = left + wide + 8;
  }
  ctx.setLineDash([]);
  const now = x(scene.now);
  if (now > names && now < scene.width) {
    ctx.fillStyle = look.now;
    ctx.fillRect(now, HEAD_PX - 6, 1.5, scene.height);
  }
}

/** Return diagonal strokes, which mark failures also for colour-blind users. */
function hatchOf(ctx: CanvasRenderingContext2D, color: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = HATCH_PX;
  const on = tile.getContext("2d");
  if (!on) return null;
  on.strokeStyle = color;
  on.lineWidth = 1.4;
  for (const shift of [-HATCH_PX, 0, HATCH_PX]) {
    on.moveTo(shift, HATCH_PX);
    on.lineTo(shift + HATCH_PX, 0);
  }
  on.stroke();
  return ctx.createPattern(tile, "repeat");
}

function drawLabel({ ctx, look }: Pen, { text, x, y, room, color, plate }: Label) {
  const shown = clipped(ctx, text, room);
  if (plate && shown) {
    ctx.fillStyle = look.plate;
    ctx.fillRect(x - 2, y - 7, ctx.measureText(shown).width + 4, 14);
  }
  ctx.fillStyle = color;
  ctx.fillText(shown, x, y);
}

/** Return the part of a text that fits. */
function clipped(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  const wide = ctx.measureText(text).width;
  if (wide <= room) return text;
  const most = Math.floor((text.length * room) / wide) - 1;
  return most >= 2 ? `${text.slice(0, most)}…` : "";
}
