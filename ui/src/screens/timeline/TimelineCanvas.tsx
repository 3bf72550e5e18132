import { useComputedColorScheme } from "@mantine/core";
import {
  type KeyboardEvent,
  type PointerEvent,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { useNavigate } from "react-router";
import type { MaintenanceWindow } from "../../api/types";
import type { Marker } from "../../chart/Chart";
import { draw, HEAD_PX, namesPx } from "./draw";
import {
  barAt,
  barBeside,
  focusOf,
  type Lane,
  moved,
  type Place,
  reachOf,
  showing,
  type Window,
  zoomed,
} from "./lanes";
import classes from "./TimelineCanvas.module.css";
import { Tip } from "./Tip";

interface Props {
  /** Lanes as laid out by `rowsOf`. */
  lanes: Lane[];
  window: Window;
  now: number;
  markers: readonly Marker[];
  maintenance: readonly MaintenanceWindow[];
  onWindow: (window: Window) => void;
}

const DRAG_PX = 4;
const KEYS: Record<string, (window: Window, around: number) => Window> = {
  PageUp: (window) => moved(window, -0.5),
  PageDown: (window) => moved(window, 0.5),
  "+": (window, around) => zoomed(window, 0.5, around),
  "=": (window, around) => zoomed(window, 0.5, around),
  "-": (window, around) => zoomed(window, 2, around),
};

const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
const PANS: Record<string, number> = { ArrowLeft: -0.2, ArrowRight: 0.2 };

/** Timeline of GPUs, one lane per GPU. Dragging pans, Ctrl and the wheel zoom, and a click opens the job. Arrow keys
 * move from bar to bar. */
export function TimelineCanvas({ lanes, window: shown, now, markers, maintenance, onWindow }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const drag = useRef<{ x: number; top: number; y: number; window: Window; far: boolean } | null>(null);
  const [box, setBox] = useState({ width: 0, height: 0 });
  const [top, setTop] = useState(0);
  const [hover, setHover] = useState<(Place & { x: number; y: number }) | null>(null);
  const [chosen, setChosen] = useState<Place | null>(null);
  const dark = useComputedColorScheme("light") === "dark";
  const navigate = useNavigate();
  const names = namesPx(box.width);
  // The chosen bar may be drawn again meanwhile, or be gone.
  const there = useMemo(() => placeOf(lanes, chosen), [lanes, chosen]);
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
      const scene = { lanes, window: shown, now, markers, maintenance, ...box, lanePx, top, dark };
      draw(ctx, { ...scene, hovered, chosen: there });
    });
    return () => cancelAnimationFrame(frame);
  }, [lanes, shown, now, markers, maintenance, box, lanePx, top, dark, hover?.bar.job, there]);

  // React's wheel listeners are passive, but a zoom must not also scroll.
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

  function find(event: PointerEvent): (Place & { x: number; y: number }) | null {
    const area = scroller.current?.getBoundingClientRect();
    if (!area) return null;
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const row = Math.floor((y - HEAD_PX + top) / lanePx);
    const lane = y < HEAD_PX || x < names ? undefined : lanes[row];
    const at = shown.from + ((x - names) / (box.width - names)) * (shown.to - shown.from);
    const bar = lane && barAt(lane, at, now);
    return bar ? { bar, row, x, y } : null;
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

  /** Move to the bar of an arrow key, and bring it into view. */
  function go(key: string) {
    const next = barBeside(lanes, there?.row ?? -1, there?.bar ?? null, key);
    if (!next) return;
    setChosen(next);
    const { claimed } = next.bar;
    const middle = (Math.max(shown.from, claimed) + Math.min(shown.to, reachOf(next.bar, now))) / 2;
    const window = showing(shown, middle < shown.from || middle > shown.to ? claimed : middle);
    if (window !== shown) onWindow(window);
    const element = scroller.current;
    const y = next.row * lanePx;
    if (element && (y < top || y > top + box.height - HEAD_PX - lanePx)) {
      element.scrollTop = y - (box.height - HEAD_PX) / 2;
    }
  }

  function onKeyDown(event: KeyboardEvent) {
    const change = KEYS[event.key];
    const pan = event.shiftKey ? PANS[event.key] : undefined;
    if (change) onWindow(change(shown, focusOf(shown, now)));
    else if (pan !== undefined) onWindow(moved(shown, pan));
    else if (ARROWS.includes(event.key)) go(event.key);
    else if (event.key === "Enter" && there) navigate(`/jobs/${there.bar.job}`);
    else if (event.key === "Escape" && there) setChosen(null);
    else return;
    event.preventDefault();
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
      onKeyDown={onKeyDown}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move from bar to bar, plus and minus zoom.
      tabIndex={0}
      role="application"
      aria-label="GPUs over time: arrows move between jobs, with Shift in time; plus and minus zoom, Enter opens"
      data-testid="timeline"
      data-hovering={hover !== null}
    >
      <canvas ref={canvas} className={classes.canvas} style={{ width: box.width, height: box.height }} />
      <div style={{ height: Math.max(0, HEAD_PX + lanes.length * lanePx - box.height) }} />
      {hover && <Tip place={hover} lanes={lanes} now={now} box={box} top={top} />}
      {!hover && there && (
        <Tip place={{ ...there, ...spotOf(there) }} lanes={lanes} now={now} box={box} top={top} />
      )}
    </div>
  );

  /** Return the position of a bar in view, for its tooltip. */
  function spotOf({ row, bar }: Place) {
    const share = (Math.max(shown.from, bar.claimed) - shown.from) / (shown.to - shown.from);
    return { x: names + share * (box.width - names), y: HEAD_PX + row * lanePx - top + lanePx };
  }
}

function placeOf(lanes: readonly Lane[], chosen: Place | null): Place | null {
  if (!chosen) return null;
  const { job, attempt, claimed } = chosen.bar;
  const bar = lanes[chosen.row]?.bars.find(
    (each) => each.job === job && each.attempt === attempt && each.claimed === claimed,
  );
  return bar ? { row: chosen.row, bar } : null;
}
