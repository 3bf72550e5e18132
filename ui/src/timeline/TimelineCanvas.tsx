import { useComputedColorScheme } from "@mantine/core";
import { type PointerEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useNavigate } from "react-router";
import type { Marker } from "../chart/Chart";
import { duration, when } from "../format/time";
import { draw, HEAD_PX, namesPx } from "./draw";
import { type Bar, barAt, focusOf, type Lane, moved, type Window, zoomed } from "./lanes";
import classes from "./TimelineCanvas.module.css";

interface Props {
  lanes: Lane[];
  window: Window;
  now: number;
  markers: readonly Marker[];
  onWindow: (window: Window) => void;
}

const DRAG_PX = 4;
const KEYS: Record<string, (window: Window, around: number) => Window> = {
  ArrowLeft: (window) => moved(window, -0.2),
  ArrowRight: (window) => moved(window, 0.2),
  "+": (window, around) => zoomed(window, 0.5, around),
  "=": (window, around) => zoomed(window, 0.5, around),
  "-": (window, around) => zoomed(window, 2, around),
};

/** Lanes of GPUs over time. Drag pans, Ctrl and the wheel zoom, a click goes to the job. */
export function TimelineCanvas({ lanes, window: shown, now, markers, onWindow }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const drag = useRef<{ x: number; top: number; y: number; window: Window; far: boolean } | null>(null);
  const [box, setBox] = useState({ width: 0, height: 0 });
  const [top, setTop] = useState(0);
  const [hover, setHover] = useState<{ bar: Bar; lane: Lane; x: number; y: number } | null>(null);
  const dark = useComputedColorScheme("light") === "dark";
  const navigate = useNavigate();
  const names = namesPx(box.width);
  const lanePx = lanes.length > 200 ? 10 : lanes.length > 60 ? 14 : 20;

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const sizes = new ResizeObserver(() => {
      setBox({ width: element.clientWidth, height: element.clientHeight });
    });
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);

  useEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext("2d");
    if (!element || !ctx || box.width === 0) return;
    const frame = requestAnimationFrame(() => {
      const ratio = devicePixelRatio;
      const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
      if (element.width !== width || element.height !== height) {
        element.width = width;
        element.height = height;
      }
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      const hovered = hover?.bar.job ?? null;
      draw(ctx, { lanes, window: shown, now, markers, ...box, lanePx, top, dark, hovered });
    });
    return () => cancelAnimationFrame(frame);
  }, [lanes, shown, now, markers, box, lanePx, top, dark, hover?.bar.job]);

  // React listens to wheels passively, and what zooms must not scroll as well.
  const zoomAt = useRef<(share: number, factor: number) => void>(() => {});
  zoomAt.current = (share, factor) => onWindow(zoomed(shown, factor, share));
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    function onWheel(event: WheelEvent) {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const area = (element as HTMLDivElement).getBoundingClientRect();
      const name = namesPx(area.width);
      const share = (event.clientX - area.left - name) / Math.max(1, area.width - name);
      zoomAt.current(Math.min(1, Math.max(0, share)), Math.exp(event.deltaY * 0.002));
    }
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);

  function find(event: PointerEvent): { bar: Bar; lane: Lane; x: number; y: number } | null {
    const area = scroller.current?.getBoundingClientRect();
    if (!area) return null;
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const lane = y < HEAD_PX || x < names ? undefined : lanes[Math.floor((y - HEAD_PX + top) / lanePx)];
    const at = shown.from + ((x - names) / (box.width - names)) * (shown.to - shown.from);
    const bar = lane && barAt(lane, at, now);
    return bar && lane ? { bar, lane, x, y } : null;
  }

  function onPointerMove(event: PointerEvent) {
    const began = drag.current;
    if (!began) {
      setHover(find(event));
      return;
    }
    const dx = event.clientX - began.x;
    const dy = event.clientY - began.y;
    if (!began.far && Math.abs(dx) + Math.abs(dy) < DRAG_PX) return;
    if (!began.far) event.currentTarget.setPointerCapture(event.pointerId);
    began.far = true;
    setHover(null);
    onWindow(moved(began.window, -dx / Math.max(1, box.width - names)));
    if (scroller.current) scroller.current.scrollTop = began.top - dy;
  }

  function onPointerUp(event: PointerEvent) {
    const began = drag.current;
    drag.current = null;
    if (!began || began.far) return;
    const found = find(event);
    if (found) navigate(`/jobs/${found.bar.job}`);
  }

  return (
    <div
      ref={scroller}
      className={classes.scroller}
      style={{ height: `min(${HEAD_PX + lanes.length * lanePx + 8}px, max(320px, 100vh - 240px))` }}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        drag.current = { x: event.clientX, y: event.clientY, top, window: shown, far: false };
      }}
      onPointerMove={onPointerMove}
      onPointerUp={onPointerUp}
      onPointerLeave={() => {
        setHover(null);
        if (!drag.current?.far) drag.current = null;
      }}
      onKeyDown={(event) => {
        const change = KEYS[event.key];
        if (!change) return;
        event.preventDefault();
        onWindow(change(shown, focusOf(shown, now)));
      }}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrows pan, plus and minus zoom.
      tabIndex={0}
      role="application"
      aria-label="GPUs over time: arrow keys pan, plus and minus zoom"
      data-testid="timeline"
      data-hovering={hover !== null}
    >
      <canvas ref={canvas} className={classes.canvas} style={{ width: box.width, height: box.height }} />
      <div style={{ height: Math.max(0, HEAD_PX + lanes.length * lanePx - box.height) }} />
      {hover && <Tip {...hover} now={now} box={box} top={top} />}
    </div>
  );
}

interface TipProps {
  bar: Bar;
  lane: Lane;
  x: number;
  y: number;
  now: number;
  box: { width: number; height: number };
  top: number;
}

function Tip({ bar, lane, x, y, now, box, top }: TipProps) {
  const left = Math.min(x + 14, box.width - 250);
  const below = y + 110 < box.height;
  return (
    <div
      className={classes.tip}
      style={{ left: Math.max(4, left), top: top + (below ? y + 14 : y - 96) }}
      role="tooltip"
    >
      <strong>{bar.name}</strong>
      <span>
        {lane.host} GPU {lane.index}
        {bar.gpus > 1 && `, one of ${bar.gpus}`} · attempt {bar.attempt}
        {bar.user && ` · ${bar.user}`}
      </span>
      <span>
        {when(bar.claimed, now, true)}, {duration(((bar.finished ?? now) - bar.claimed) / 1000)}
        {bar.finished === null ? " so far" : bar.outcome && ` · ${bar.outcome}`}
      </span>
    </div>
  );
}
