import { Skeleton } from "@mantine/core";
import { Part } from "../shell/Part";
import { parts } from "../shell/screens";

export interface Series {
  name: string;
  /** Holds its value until the next point, as an allocation does. */
  stepped?: boolean;
  dashed?: boolean;
  /** Fills what is below it. */
  filled?: boolean;
  /** Its points lie between those of other series: the line goes on where it has none. */
  joined?: boolean;
  /** Points without a line. */
  dots?: boolean;
}

export interface Marker {
  x: number;
  text: string;
}

export interface ChartProps {
  /** For those who can't see it: what it shows, in a sentence. */
  label: string;
  series: readonly Series[];
  /** x (epoch seconds if `time`), then the values of each series. */
  data: readonly [readonly number[], ...(readonly (number | null)[])[]];
  time?: boolean;
  xName?: string;
  /** Vertical lines with a word. */
  markers?: readonly Marker[];
  height?: number;
  /** The axis begins at 0. */
  fromZero?: boolean;
  /** The values are counts: no ticks between them. */
  whole?: boolean;
  format?: (value: number) => string;
}

const Plot = parts.plot.Component;

/** What stands below a chart. */
export const LEGEND_PX = 34;

/** The room of a chart that is not there yet. */
export const ChartRoom = ({ height = 200 }: { height?: number }) => <Skeleton height={height + LEGEND_PX} />;

/** A chart, whose library is loaded with the first one. */
export function Chart(props: ChartProps) {
  return (
    <Part what="chart" fallback={<ChartRoom height={props.height} />}>
      <Plot {...props} />
    </Part>
  );
}
