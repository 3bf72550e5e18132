import type { Marker } from "../chart/Chart";
import { timeLabels } from "../chart/ticks";
import { jobColor } from "../format/color";
import { type Lane, ticksOf, type Window } from "./lanes";

export const HEAD_PX = 34;

/** Room for the hosts' names. */
export const namesPx = (width: number) => (width < 520 ? 74 : 116);

export interface Scene {
  lanes: readonly Lane[];
  window: Window;
  now: number;
  markers: readonly Marker[];
  /** Of the canvas, in CSS pixels. */
  width: number;
  height: number;
  lanePx: number;
  /** How far the lanes are scrolled. */
  top: number;
  dark: boolean;
  /** Its other bars are drawn faintly. */
  hovered: string | null;
}

const FONT = "12px ui-sans-serif, system-ui, sans-serif";

/** Draws what can be seen and nothing else: the cost grows with the screen, not with the history. */
export function draw(ctx: CanvasRenderingContext2D, scene: Scene) {
  const { width, height, window, dark } = scene;
  const names = namesPx(width);
  const ink = dark ? "#9aa6a2" : "#586360";
  const line = dark ? "#28312e" : "#e2e0d8";
  const scale = (width - names) / (window.to - window.from);
  const x = (ms: number) => names + (ms - window.from) * scale;
  ctx.clearRect(0, 0, width, height);
  ctx.font = FONT;
  ctx.textBaseline = "middle";

  const ticks = ticksOf(window, Math.max(2, (width - names) / 90));
  const labels = timeLabels(ticks);
  ctx.fillStyle = ink;
  for (const [index, tick] of ticks.entries()) {
    const at = Math.round(x(tick * 1000)) + 0.5;
    ctx.fillStyle = line;
    ctx.fillRect(at, HEAD_PX - 6, 1, height);
    ctx.fillStyle = ink;
    ctx.fillText(labels[index] ?? "", at + 4, 12);
  }

  ctx.save();
  ctx.beginPath();
  ctx.rect(0, HEAD_PX, width, height - HEAD_PX);
  ctx.clip();
  const first = Math.max(0, Math.floor(scene.top / scene.lanePx));
  const last = Math.min(scene.lanes.length - 1, Math.floor((scene.top + height - HEAD_PX) / scene.lanePx));
  for (let row = first; row <= last; row++) {
    const lane = scene.lanes[row];
    if (lane) drawLane(ctx, scene, lane, row, x, ink, line);
  }
  ctx.restore();
  drawMarkers(ctx, scene, x, ink);
}

function drawLane(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  lane: Lane,
  row: number,
  x: (ms: number) => number,
  ink: string,
  line: string,
) {
  const { lanePx, dark, window, width, now, hovered } = scene;
  const names = namesPx(width);
  const y = HEAD_PX + row * lanePx - scene.top;
  const isNewHost = row === 0 || scene.lanes[row - 1]?.host !== lane.host;
  if (isNewHost) {
    ctx.fillStyle = line;
    ctx.fillRect(0, y, width, 1);
  }
  ctx.fillStyle = ink;
  if (isNewHost) clipText(ctx, lane.host, 2, y + Math.max(7, lanePx / 2), names - 30);
  if (lanePx >= 12) ctx.fillText(String(lane.index), names - 20, y + lanePx / 2);
  let drawn = -1;
  for (const bar of lane.bars) {
    const end = bar.finished ?? now;
    if (end < window.from) continue;
    if (bar.claimed > window.to) break;
    const left = Math.max(names, x(bar.claimed));
    const right = Math.min(width, x(end));
    if (right <= drawn) continue; // several within a pixel look like one
    const shown = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
    ctx.globalAlpha = hovered !== null && hovered !== bar.job ? 0.3 : 1;
    ctx.fillStyle = jobColor(bar.job, dark);
    ctx.fillRect(left, y + 1, shown, lanePx - 2);
    if (bar.started !== null && bar.started > bar.claimed && shown > 6) {
      // Until it started, the GPU was held but idle.
      ctx.fillStyle = dark ? "rgb(0 0 0 / 45%)" : "rgb(255 255 255 / 55%)";
      ctx.fillRect(left, y + 1, Math.max(0, Math.min(x(bar.started), right) - left), lanePx - 2);
    }
    if (lanePx >= 14 && shown > 36) {
      ctx.fillStyle = dark ? "#0d1211" : "#ffffff";
      clipText(ctx, bar.name, left + 4, y + lanePx / 2, shown - 8);
    }
    ctx.globalAlpha = 1;
    drawn = left + shown;
  }
}

function drawMarkers(ctx: CanvasRenderingContext2D, scene: Scene, x: (ms: number) => number, ink: string) {
  ctx.strokeStyle = ctx.fillStyle = ink;
  ctx.setLineDash([4, 3]);
  const names = namesPx(scene.width);
  let free = 0;
  for (const { x: seconds, text } of scene.markers) {
    const at = Math.round(x(seconds * 1000)) + 0.5;
    if (at < names || at > scene.width) continue;
    ctx.beginPath();
    ctx.moveTo(at, 20);
    ctx.lineTo(at, scene.height);
    ctx.stroke();
    if (at < free) continue;
    ctx.fillText(text, at + 4, 26);
    free = at + ctx.measureText(text).width + 12;
  }
  ctx.setLineDash([]);
  const now = x(scene.now);
  if (now > names && now < scene.width) {
    ctx.fillStyle = scene.dark ? "#46ad99" : "#0d7261";
    ctx.fillRect(now, HEAD_PX - 6, 1.5, scene.height);
  }
}

const AVERAGE_PX = 6.5;

function clipText(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, room: number) {
  const most = Math.floor(room / AVERAGE_PX);
  if (most >= 2) ctx.fillText(text.length > most ? `${text.slice(0, most - 1)}…` : text, x, y);
}
