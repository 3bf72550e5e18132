import classes from "./Legend.module.css";

const SIGNS = [
  { look: "job", text: "job, one color each" },
  { look: "failed", text: "failed" },
  { look: "cancelled", text: "cancelled" },
  { look: "starting", text: "GPU held, container not yet running" },
  { look: "foreseen", text: "expected" },
  { look: "maintenance", text: "maintenance" },
  { look: "policy", text: "policy changed" },
] as const;

/** Legend of the timeline. */
export function Legend() {
  return (
    <ul className={classes.legend} aria-label="Legend">
      {SIGNS.map(({ look, text }) => (
        <li key={look}>
          <span className={classes.sample} data-look={look} aria-hidden /> {text}
        </li>
      ))}
    </ul>
  );
}
