import { SegmentedControl, Slider } from "@mantine/core";
import { useSearchParams } from "react-router";
import type { Profile } from "../api/types";
import { useSetAddress } from "../shell/useAddress";
import classes from "./CurveControls.module.css";
import { type Axis, axesOf, MOST_SMOOTHING } from "./curves";

const NAMES: Record<Axis, string> = { step: "by step", time: "by time", epoch: "by epoch" };

/** Axis and smoothing of a screen's curves, read from the address. */
export function useCurveChoice(profiles: readonly (Profile | undefined)[]): {
  axis: Axis;
  smoothing: number;
} {
  const [address] = useSearchParams();
  const by = address.get("by") as Axis;
  const smoothing = Number(address.get("smooth"));
  return {
    axis: axesOf(profiles).includes(by) ? by : "step",
    smoothing: smoothing > 0 && smoothing <= MOST_SMOOTHING ? smoothing : 0,
  };
}

/** Controls for the axis and smoothing of all curves of a screen. */
export function CurveControls({ profiles }: { profiles: readonly (Profile | undefined)[] }) {
  const { axis, smoothing } = useCurveChoice(profiles);
  const set = useSetAddress();
  return (
    <div className={classes.controls}>
      <SegmentedControl
        size="xs"
        aria-label="Curves by"
        data={axesOf(profiles).map((value) => ({ value, label: NAMES[value] }))}
        value={axis}
        onChange={(value) => set("by", value === "step" ? null : value)}
      />
      <span className={classes.smoothing}>
        <span id="smoothing">Smoothing</span>
        <Slider
          w={140}
          size="sm"
          min={0}
          max={MOST_SMOOTHING}
          step={0.01}
          label={(value) => value.toFixed(2)}
          thumbProps={{ "aria-labelledby": "smoothing" }}
          value={smoothing}
          onChange={(value) => set("smooth", value === 0 ? null : String(value))}
        />
        <span className={classes.amount}>{smoothing.toFixed(2)}</span>
      </span>
    </div>
  );
}
