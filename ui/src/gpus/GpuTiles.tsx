import classes from "./GpuTiles.module.css";

const MOST = 8;

/** One small square per GPU, filled if the job holds it. Large jobs have none: the numbers beside them suffice. */
export function GpuTiles({ held, wanted }: { held: number; wanted: number }) {
  const total = Math.max(held, wanted);
  if (total > MOST) return null;
  return (
    <span className={classes.tiles} aria-hidden>
      {Array.from({ length: total }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the squares are alike and never move.
        <span key={index} className={classes.tile} data-held={index < held} />
      ))}
    </span>
  );
}
