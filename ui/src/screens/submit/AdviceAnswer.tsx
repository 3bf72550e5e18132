import { Button, Text } from "@mantine/core";
import { useState } from "react";
import type { JobBody } from "../../api/commands";
import type { Advice, AdviceOption, AdviceSpec, Estimate } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Fact } from "../../components/Panel";
import { count, money, plainNumber } from "../../format/number";
import { Icon } from "../../shell/Icon";
import classes from "./Advice.module.css";
import { basisOf, bounds, hasObjective, isTaken, missed, nameOf, sizeOf, span, USUAL_METRIC } from "./advice";

const SHOWN = 8;

interface Props {
  advice: Advice;
  /** Request that the advice answers. */
  spec: AdviceSpec;
  /** Job as it is in the form now. */
  job: JobBody;
  onTake: (option: AdviceOption) => void;
}

export function AdviceAnswer({ advice, spec, job, onTake }: Props) {
  const { chosen } = advice;
  const metric = spec.metric?.name ?? USUAL_METRIC;
  const asked = hasObjective(spec);
  const name = nameOf(chosen);
  return (
    <div className={classes.answer} data-testid="advice">
      <p className={classes.headline} role="status" data-meets={asked ? advice.meets : undefined}>
        {asked && <Icon name={advice.meets ? "check" : "cross"} size={18} />}
        <span>
          {asked &&
            (advice.meets
              ? "The objective can be met: "
              : "No configuration is expected to meet it. The fastest: ")}
          <strong>{name}</strong>
        </span>
      </p>
      <dl className={classes.facts}>
        <Fact name="Done in">
          {span(chosen.response_time.value)} ({bounds(chosen.response_time, span)})
          {chosen.wait_time >= 1 && <>, including a wait of {span(chosen.wait_time)}</>}
        </Fact>
        {chosen.metric && (
          <Fact name={metric}>
            {plainNumber(chosen.metric.value)} ({bounds(chosen.metric, plainNumber)})
          </Fact>
        )}
        {chosen.cost !== null && <Fact name="Cost">{money(chosen.cost, advice.currency)}</Fact>}
      </dl>
      <Text size="sm" c="dimmed">
        {advice.why}
      </Text>
      <div className={classes.take}>
        <Button size="xs" onClick={() => onTake(chosen)}>
          Take it
        </Button>
        <Text size="sm" role="status">
          {isTaken(chosen, job)
            ? "It is in the form."
            : job.elastic && "The job then has this fixed size: it is no longer elastic."}
        </Text>
      </div>
      <Options advice={advice} spec={spec} job={job} onTake={onTake} metric={metric} asked={asked} />
      <Text size="sm" c="dimmed">
        {basisOf(advice, metric)}
        {advice.metric_models.length === 0 && ` Too few jobs have logged ${metric} for a prediction.`}
        {chosen.cost === null &&
          " The cost is unknown: the setting gpu_prices has no price for this GPU type."}
      </Text>
    </div>
  );
}

/** Table of all configurations, best first. */
function Options({ advice, spec, job, onTake, metric, asked }: Props & { metric: string; asked: boolean }) {
  const [all, setAll] = useState(false);
  const { options, chosen } = advice;
  const measured = options.some((option) => option.metric !== null);
  const priced = options.some((option) => option.cost !== null);
  const columns = [
    "Configuration",
    "Done in",
    ...(measured ? [metric] : []),
    ...(priced ? ["Cost"] : []),
    ...(asked ? ["Objective"] : []),
  ];
  return (
    <section aria-label="Configurations compared">
      <DataTable columns={columns} actions>
        {options.slice(0, all ? undefined : SHOWN).map((option) => (
          <tr key={nameOf(option)} data-chosen={nameOf(option) === nameOf(chosen)} className={classes.row}>
            <td>
              <span className={classes.whole}>{sizeOf(option)}</span>
              <span className={classes.type}>{option.gpu_type}</span>
              {nameOf(option) === nameOf(chosen) && <span className={classes.chosen}>chosen</span>}
            </td>
            <td>
              <Spanned estimate={option.response_time} show={span} />
            </td>
            {measured && (
              <td>{option.metric ? <Spanned estimate={option.metric} show={plainNumber} /> : "–"}</td>
            )}
            {priced && <td className={classes.whole}>{money(option.cost, advice.currency)}</td>}
            {asked && <td>{missed(option, spec) || "met"}</td>}
            <td>
              {isTaken(option, job) ? (
                <span className={classes.dim}>in the form</span>
              ) : (
                <Button
                  size="compact-xs"
                  variant="default"
                  aria-label={`Take ${nameOf(option)}`}
                  onClick={() => onTake(option)}
                >
                  Take
                </Button>
              )}
            </td>
          </tr>
        ))}
      </DataTable>
      {!all && options.length > SHOWN && (
        <Button size="compact-sm" variant="subtle" ml={-8} onClick={() => setAll(true)}>
          Show all {count(options.length)}
        </Button>
      )}
    </section>
  );
}

/** Estimated value with its interval. */
function Spanned({ estimate, show }: { estimate: Estimate; show: (value: number) => string }) {
  return (
    <>
      {show(estimate.value)}
      <span className={classes.bounds}>{bounds(estimate, show)}</span>
    </>
  );
}
