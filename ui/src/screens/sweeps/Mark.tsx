/** Shapes of points that colour alone would not distinguish. */
const SHAPES = {
  circle: "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
  square: "M-4 -4H4V4H-4Z",
  triangle: "M0 -5L5 4H-5Z",
  diamond: "M0 -6L6 0L0 6L-6 0Z",
  inverse: "M0 5L5 -4H-5Z",
  cross: "M-2 -5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z",
  star: "M0 -9L2.2 -3L8.6 -2.8L3.6 1.1L5.3 7.3L0 3.7L-5.3 7.3L-3.6 1.1L-8.6 -2.8L-2.2 -3Z",
};

export type Shape = keyof typeof SHAPES;

/** Shapes of lines, by index. */
export const LINE_SHAPES: readonly Shape[] = ["circle", "square", "triangle", "diamond", "inverse", "cross"];

interface Props extends React.SVGProps<SVGPathElement> {
  shape: Shape;
  x: number;
  y: number;
  /** Tooltip text. */
  title?: string;
}

export function Mark({ shape, x, y, title, ...rest }: Props) {
  return (
    <path d={SHAPES[shape]} transform={`translate(${x.toFixed(1)} ${y.toFixed(1)})`} {...rest}>
      {title !== undefined && <title>{title}</title>}
    </path>
  );
}
