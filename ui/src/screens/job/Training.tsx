import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { jobEventsQuery, profileQuery } from "../../api/queries";
import type { JobDetail, Profile } from "../../api/types";
import { Chart } from "../../chart/Chart";
import { CurveControls, useCurveChoice } from "../../chart/CurveControls";
import { type Axis, curvesOf, metricsOf, X_NAMES } from "../../chart/curves";
import { ChartGroup } from "../../chart/group";
import { usePolicyMarkers } from "../../chart/usePolicyMarkers";
import { Panel } from "../../components/Panel";
import { Ago, When } from "../../format/Elapsed";
import { count, plainNumber, plainSentence, plural } from "../../format/number";
import { useNow } from "../../format/useNow";
import { Sentence } from "../../jobs/Sentence";
import { isOver } from "../../jobs/states";
import { Loaded } from "../../shell/Loaded";
import { JobResources } from "./JobResources";
import { StepTimes } from "./StepTimes";
import classes from "./Training.module.css";
import { allocationOf, type Resize, resizesOf, scalingOf } from "./training";

/** Training of the job: reported values, measurements, and predictions from them. */
export default function Training({ job }: { job: JobDetail }) {
  const profile = useQuery(profileQuery(job.id, !isOver(job.state)));
  return (
    <Loaded query={profile} title="The measurements can't be read">
      {(found) => (
        <ChartGroup>
          <div className={classes.stack}>
            <Allocation job={job} />
            <JobResources job={job} />
            {found.reported_at === null && (
              <p className={classes.note}>{metricsOf([found]).length > 0 ? ONLY_LOG : NOTHING}</p>
            )}
            <Curves profile={found} />
            {found.reported_at !== null && <Measured profile={found} />}
          </div>
        </ChartGroup>
      )}
    </Loaded>
  );
}

const NOTHING =
  "No loss: no reports, and nothing like `epoch 3/60 loss 0.41` in its log. See docs/adapt-your-script.md.";
const ONLY_LOG =
  "Read from the log of the job. Six lines make a PyTorch script report its speed too, see docs/adapt-your-script.md.";

function Curves({ profile }: { profile: Profile }) {
  const profiles = useMemo(() => [profile], [profile]);
  const { axis, smoothing } = useCurveChoice(profiles);
  const metrics = metricsOf(profiles);
  return (
    <>
      {metrics.length > 0 && <CurveControls profiles={profiles} />}
      <div className={classes.grid}>
        {metrics.map((name) => (
          <MetricChart key={name} name={name} profiles={profiles} axis={axis} smoothing={smoothing} />
        ))}
      </div>
    </>
  );
}

function Measured({ profile }: { profile: Profile }) {
  return (
    <>
      <div className={classes.grid}>
        <StepTimes profile={profile} />
        <Scaling profile={profile} />
      </div>
      <Batch profile={profile} />
    </>
  );
}

function Allocation({ job }: { job: JobDetail }) {
  const { data: events } = useQuery(jobEventsQuery(job.id));
  // Rounded to ten seconds, so that the chart is not drawn again every second.
  const now = Math.ceil(useNow() / 10_000) * 10_000;
  const data = useMemo(() => allocationOf(job.tasks, now), [job.tasks, now]);
  const resizes = resizesOf(events?.items ?? []);
  const markers = usePolicyMarkers();
  return (
    <Chart
      title="GPUs held over time"
      label={`GPUs held over time, at most ${Math.max(0, ...data[1])}`}
      time
      data={data}
      series={HELD}
      markers={markers}
      height={150}
      whole
      empty="None yet. The reason is shown above."
      note={resizes.length > 0 && <Resizes resizes={resizes} />}
    />
  );
}

const HELD = [{ name: "GPUs", stepped: true, filled: true }];

function Resizes({ resizes }: { resizes: Resize[] }) {
  return (
    <ol className={classes.resizes} aria-label="Resizes">
      {resizes.toReversed().map(({ at, why }) => (
        <li key={`${at} ${why}`}>
          <When at={at} seconds /> <Sentence text={why} />
        </li>
      ))}
    </ol>
  );
}

interface MetricProps {
  name: string;
  profiles: Profile[];
  axis: Axis;
  smoothing: number;
}

function MetricChart({ name, profiles, axis, smoothing }: MetricProps) {
  const byTime = axis === "time";
  const data = useMemo(() => curvesOf(profiles, name, axis, true), [profiles, name, axis]);
  const series = useMemo(() => [{ name }], [name]);
  const last = data[1]?.at(-1);
  const isLogged = profiles.some((profile) => profile.metrics_from_log.includes(name));
  return (
    <Chart
      title={TITLES[name] ?? name}
      note={isLogged && "Read from the log"}
      label={`${name} by ${axis}, last ${last == null ? "unknown" : plainNumber(last)}`}
      data={data}
      time={byTime}
      xName={X_NAMES[axis]}
      series={series}
      smoothing={smoothing}
      fromZero={false}
      height={180}
    />
  );
}

const TITLES: Record<string, string> = { noise_scale: "Gradient noise scale, in samples" };

function Scaling({ profile }: { profile: Profile }) {
  const data = useMemo(() => scalingOf(profile), [profile]);
  const markers = useMemo(
    () => (profile.knee === null ? [] : [{ x: profile.knee, text: "knee" }]),
    [profile.knee],
  );
  if (profile.predictions.length === 0) return null;
  return (
    <Chart
      title="Predicted gain of more GPUs"
      label={`Predicted throughput and goodput for 1 to ${plural(data[0].length, "GPU")}; the knee is at ${profile.knee}`}
      data={data}
      xName="GPUs"
      series={SCALING}
      markers={markers}
      note="Goodput counts only progress of the training. The knee is the last GPU that adds at least half as much as the first one."
    />
  );
}

const SCALING = [{ name: "samples/s" }, { name: "goodput" }, { name: "measured", dots: true }];

function Batch({ profile }: { profile: Profile }) {
  const { batch, noise_scale: noise, progress, fits } = profile;
  const facts: [string, string][] = [];
  if (batch) {
    facts.push([
      "Batch per GPU",
      `${batch.atomic}${batch.accumulation ? ` × ${batch.accumulation + 1} micro-steps` : ""}`,
    ]);
    facts.push(["Range of the total batch", `${batch.init} to ${batch.max}`]);
    if (batch.why) facts.push(["Why", plainSentence(batch.why)]);
  }
  if (noise !== null) facts.push(["Noise scale", `${plainNumber(Math.round(noise))} samples`]);
  if (progress) facts.push(["Steps", count(progress.steps)]);
  for (const fit of fits) {
    facts.push([`Model for ${fit.gpu_type}`, `off by ${(fit.relative_error * 100).toFixed(1)}%`]);
  }
  return (
    <Panel title="Batch and noise">
      <dl className={classes.facts}>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {profile.reported_at && (
        <p className={classes.note}>
          Last report <Ago at={profile.reported_at} />.
        </p>
      )}
    </Panel>
  );
}
