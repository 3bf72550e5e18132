import { Text } from "@mantine/core";
import type { Analysis, Trial } from "../../../api/types";
import { Panel } from "../../../components/Panel";
import { seriesColors } from "../../../format/color";
import { fourDigits } from "../../../sweeps/runs";
import { LINE_SHAPES, Mark } from "../Mark";
import { type NumberAxis, numberAxis } from "../numberAxis";
import plot from "../Plots.module.css";
import { Facet, Facets, lineOf } from "./Facet";
import {
  boxOf,
  interactionOf,
  type Level,
  levelsOf,
  MOST_LEVELS,
  meansBy,
  type Pair,
  pairsOf,
  valuesBy,
} from "./results";

const TICKS = 5;
const MOST_PAIRS = 6;
const BOX_SHARE = 0.44;

interface Props {
  analysis: Analysis;
  /** Runs, as far as shown. */
  table: readonly Trial[];
}

/** Effects of single factors and pairs, and the spread of runs. */
export function Drawings({ analysis, table }: Props) {
  const factors = Object.keys(analysis.cells[0]?.levels ?? {}).filter((name) => isVaried(analysis, name));
  const drawn = factors.filter((name) => levelsOf(analysis.cells, name).length <= MOST_LEVELS);
  const left = factors.filter((name) => !drawn.includes(name));
  return (
    <>
      <Panel title="Main effects">
        <MainEffects analysis={analysis} factors={drawn} />
        {left.length > 0 && (
          <Text size="sm" c="dimmed" mt="xs">
            Not drawn: {left.join(", ")}, with more than {MOST_LEVELS} levels.
          </Text>
        )}
      </Panel>
      <Interactions analysis={analysis} />
      <Panel title="Distribution">
        <Boxes factors={drawn} table={table} response={analysis.response} />
      </Panel>
    </>
  );
}

const isVaried = ({ cells }: Analysis, factor: string) => levelsOf(cells, factor).length > 1;

function MainEffects({ analysis, factors }: { analysis: Analysis; factors: string[] }) {
  const { cells, mean, response } = analysis;
  const found = factors.map((factor) => ({ factor, means: meansBy(cells, factor) }));
  // All factors share one axis, so that their effects can be compared.
  const axis = numberAxis([mean, ...found.flatMap(({ means }) => means.map((each) => each.mean))], TICKS);
  return (
    <>
      <Facets>
        {found.map(({ factor, means }) => (
          <Facet
            key={factor}
            title={factor}
            factor={factor}
            levels={means.map(({ level }) => level)}
            axis={axis}
            label={`Mean of ${response} by ${factor}: ${saidOf(means.map((each) => [each.level, each.mean]))}`}
          >
            {({ x, y, left, right }) => (
              <g className={plot.own}>
                <g className={plot.axes}>
                  <line className={plot.grand} x1={left} x2={right} y1={y(mean)} y2={y(mean)} />
                </g>
                <path className={plot.line} d={lineOf(means.map((each, at) => [x(at), y(each.mean)]))} />
                {means.map((each, at) => (
                  <Mark
                    key={String(each.level)}
                    className={plot.mark}
                    shape="circle"
                    x={x(at)}
                    y={y(each.mean)}
                    title={`${each.level}: ${fourDigits(each.mean)}, ${each.runs} runs`}
                  />
                ))}
              </g>
            )}
          </Facet>
        ))}
      </Facets>
      <p className={plot.note}>
        The mean of {response} over all runs with each level. Dashed: the mean of all runs, {fourDigits(mean)}
        .
      </p>
    </>
  );
}

function Interactions({ analysis }: { analysis: Analysis }) {
  const pairs = pairsOf(analysis);
  if (pairs.length === 0) return null;
  const shown = pairs.slice(0, MOST_PAIRS);
  const axis = numberAxis(
    shown.flatMap(({ across, by }) =>
      interactionOf(analysis.cells, across, by).flatMap(({ means }) => means.map((each) => each.mean)),
    ),
    TICKS,
  );
  return (
    <Panel title="Interactions">
      <Facets>
        {shown.map((pair) => (
          <Interaction key={`${pair.across} ${pair.by}`} analysis={analysis} pair={pair} axis={axis} />
        ))}
      </Facets>
      <p className={plot.note}>
        If lines are not parallel, the effect of one factor depends on the other one.
        {pairs.length > shown.length &&
          ` Shown: the ${shown.length} of ${pairs.length} pairs that explain most.`}
      </p>
    </Panel>
  );
}

function Interaction({ analysis, pair, axis }: { analysis: Analysis; pair: Pair; axis: NumberAxis }) {
  const { across, by } = pair;
  const lines = interactionOf(analysis.cells, across, by);
  const levels = levelsOf(analysis.cells, across);
  const said = lines.map(
    ({ level, means }) => `${by} ${level}: ${saidOf(means.map((each) => [each.level, each.mean]))}`,
  );
  return (
    <Facet
      title={`${across} and ${by}`}
      factor={across}
      levels={levels}
      axis={axis}
      label={`Mean of ${analysis.response} by ${across}, for each ${by}. ${said.join("; ")}`}
      legend={<Legend by={by} levels={lines.map(({ level }) => level)} />}
    >
      {({ x, y }) =>
        lines.map(({ level, means }, index) => (
          <g key={String(level)} style={{ color: seriesColors(index) }}>
            <path
              className={plot.line}
              d={lineOf(means.map((each) => [x(levels.indexOf(each.level)), y(each.mean)]))}
            />
            {means.map((each) => (
              <Mark
                key={String(each.level)}
                className={plot.mark}
                shape={LINE_SHAPES[index % LINE_SHAPES.length] ?? "circle"}
                x={x(levels.indexOf(each.level))}
                y={y(each.mean)}
                title={`${by} ${level}, ${across} ${each.level}: ${fourDigits(each.mean)}`}
              />
            ))}
          </g>
        ))
      }
    </Facet>
  );
}

function Legend({ by, levels }: { by: string; levels: readonly Level[] }) {
  return (
    <ul className={plot.legend}>
      {levels.map((level, index) => (
        <li key={String(level)}>
          <svg width={16} height={16} aria-hidden="true" style={{ color: seriesColors(index) }}>
            <Mark
              className={plot.mark}
              shape={LINE_SHAPES[index % LINE_SHAPES.length] ?? "circle"}
              x={8}
              y={8}
            />
          </svg>
          {by} {String(level)}
        </li>
      ))}
    </ul>
  );
}

function Boxes({
  factors,
  table,
  response,
}: {
  factors: string[];
  table: readonly Trial[];
  response: string;
}) {
  const found = factors.map((factor) => ({ factor, groups: valuesBy(table, factor, response) }));
  const axis = numberAxis(
    found.flatMap(({ groups }) => groups.flatMap(({ values }) => values)),
    TICKS,
  );
  return (
    <>
      <Facets>
        {found.map(({ factor, groups }) => (
          <Facet
            key={factor}
            title={factor}
            factor={factor}
            levels={groups.map(({ level }) => level)}
            axis={axis}
            label={`Median of ${response} by ${factor}: ${saidOf(groups.map(({ level, values }) => [level, boxOf(values).median]))}`}
          >
            {({ x, y, step }) =>
              groups.map(({ level, values }, at) => (
                <BoxPlot key={String(level)} values={values} x={x(at)} half={(step * BOX_SHARE) / 2} y={y} />
              ))
            }
          </Facet>
        ))}
      </Facets>
      <p className={plot.note}>
        The box has the middle half of the runs, its line is their median, the whiskers reach to the last run
        within 1.5 boxes, and each dot is a run.
      </p>
    </>
  );
}

interface BoxProps {
  values: readonly number[];
  x: number;
  half: number;
  y: (value: number) => number;
}

function BoxPlot({ values, x, half, y }: BoxProps) {
  const { low, lower, median, upper, high } = boxOf(values);
  const title = `${values.length} runs: median ${fourDigits(median)}, middle half ${fourDigits(lower)} to ${fourDigits(upper)}`;
  return (
    <g data-box>
      <line className={plot.whisker} x1={x} x2={x} y1={y(low)} y2={y(lower)} />
      <line className={plot.whisker} x1={x} x2={x} y1={y(upper)} y2={y(high)} />
      <rect className={plot.box} x={x - half} y={y(upper)} width={2 * half} height={y(lower) - y(upper)}>
        <title>{title}</title>
      </rect>
      <line className={plot.median} x1={x - half} x2={x + half} y1={y(median)} y2={y(median)} />
      {values.map((value, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: sorted values, of which several may be equal.
        <circle key={at} className={plot.run} cx={x} cy={y(value)} r={2.4} />
      ))}
    </g>
  );
}

const saidOf = (values: readonly (readonly [Level, number])[]) =>
  values.map(([level, value]) => `${level} ${fourDigits(value)}`).join(", ");
