import { Button, Radio, SegmentedControl, Table, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Fragment, type ReactNode, useState } from "react";
import { comparisonQuery } from "../../api/policyQueries";
import type { ComparedPolicy, Policy } from "../../api/types";
import { clock } from "../../format/clock";
import { amount, count, plural } from "../../format/number";
import { duration, when } from "../../format/time";
import { Icon } from "../../shell/Icon";
import { ReadError } from "../../shell/Loaded";
import { type Draft, kindOf } from "./draft";
import classes from "./PolicyForm.module.css";
import { bestOf, FIGURES, type Figure, groupsOf, isBest, keyOf, nameOf, whyNone } from "./preview";
import { HOURS, useHours } from "./useHours";

const COLUMNS: Record<Figure, { title: string; show: (value: number) => string }> = {
  mean_completion: { title: "Mean completion", show: duration },
  median_wait: { title: "Median wait", show: duration },
  p90_wait: { title: "p90 wait", show: duration },
  gpu_hours: { title: "GPU-hours", show: amount },
  host_hours: { title: "Host-hours", show: amount },
  changes: { title: "Jobs moved now", show: count },
};

interface Props {
  policy: Policy;
  draft: Draft;
  onChoose: (algorithm: string, metric: string) => void;
  /** Shown below the selected row. */
  children: ReactNode;
}

/** Table of all policies with simulated results on the present jobs. The active policy is first. */
export function PolicyTable({ policy, draft, onChoose, children }: Props) {
  const [hours, setHours] = useHours();
  const [sort, setSort] = useState<Figure | null>(null);
  const comparison = useQuery(comparisonQuery(hours));
  const { data, isFetching, refetch } = comparison;
  const found = new Map((data?.policies ?? []).map((each) => [keyOf(each), each]));
  const best = bestOf(data?.policies ?? []);
  const groups = groupsOf(rowsOf(policy, found, sort), found);
  return (
    <section className={`card ${classes.table}`} aria-label="Policies compared">
      <div className={classes.head}>
        <h2 className="section-title">Policies compared</h2>
        <SegmentedControl
          size="xs"
          aria-label="Over the next"
          data={Object.entries(HOURS).map(([value, label]) => ({ value, label }))}
          value={String(hours)}
          onChange={setHours}
        />
        <Button size="xs" variant="default" loading={isFetching} onClick={() => refetch()}>
          Compare again
        </Button>
        <span className={classes.asOf}>
          {data
            ? `Until ${when(data.until, clock.now())}, of ${leftOut(data.jobs, data.left_out)}`
            : "Each policy is simulated from now on"}
        </span>
      </div>
      <ReadError queries={[comparison]} title="The comparison failed" />
      <Table.ScrollContainer
        minWidth={760}
        scrollAreaProps={{ tabIndex: 0, "aria-label": "Policies" } as object}
      >
        <Table verticalSpacing={6} className={classes.rows}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Policy</Table.Th>
              {FIGURES.map((figure) => (
                <Table.Th
                  key={figure}
                  aria-sort={sort === figure ? "ascending" : "none"}
                  className={classes.figure}
                >
                  <UnstyledButton
                    className={classes.sort}
                    onClick={() => setSort(sort === figure ? null : figure)}
                    title="Sort by lowest"
                  >
                    {COLUMNS[figure].title}
                    {sort === figure && <Icon name="up" size={12} />}
                  </UnstyledButton>
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {groups.map((group, index) => {
              const [first] = group;
              const chosen = group.some((each) => keyOf(each) === keyOf(draft));
              const choose = (each = first) => each && onChoose(each.algorithm, each.metric);
              return (
                <Fragment key={group.map(keyOf).join()}>
                  <Table.Tr data-chosen={chosen} onClick={() => !chosen && choose()}>
                    <Table.Td>
                      <span className={classes.group}>
                        {group.map((each, position) => (
                          <span className={classes.policy} key={keyOf(each)}>
                            <Radio
                              size="xs"
                              name="policy"
                              label={nameOf(each)}
                              checked={keyOf(each) === keyOf(draft)}
                              onClick={(event) => event.stopPropagation()}
                              onChange={() => choose(each)}
                            />
                            {index === 0 && position === 0 && <span className={classes.inForce}>active</span>}
                          </span>
                        ))}
                      </span>
                    </Table.Td>
                    <Figures found={first && found.get(keyOf(first))} best={best} />
                  </Table.Tr>
                  {chosen && (
                    <tr className={classes.opened}>
                      <td colSpan={1 + FIGURES.length}>
                        <fieldset className={classes.details} aria-label={`Parameters of ${nameOf(draft)}`}>
                          {children}
                        </fieldset>
                      </td>
                    </tr>
                  )}
                </Fragment>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </section>
  );
}

/** Return the number of jobs counted, and why others are left out. */
const leftOut = (jobs: number, out: number) =>
  out ? `${plural(jobs - out, "job")}, without ${out} that can't run here` : "the current jobs";

function Figures({
  found,
  best,
}: {
  found: ComparedPolicy | undefined;
  best: Partial<Record<Figure, number>>;
}) {
  const why = found ? whyNone(found.totals, found.problem) : "";
  if (why)
    return (
      <Table.Td colSpan={FIGURES.length} className={classes.none}>
        {why}
      </Table.Td>
    );
  return FIGURES.map((figure) => {
    const value = found?.totals?.[figure];
    const leads = isBest(value, best[figure]);
    return (
      <Table.Td key={figure} className={classes.figure} data-best={leads}>
        {leads && <span className={classes.best}>best</span>}
        {value == null ? "–" : COLUMNS[figure].show(value)}
      </Table.Td>
    );
  });
}

/** Return the active policy, then the others by name or figure. */
function rowsOf(policy: Policy, found: Map<string, ComparedPolicy>, sort: Figure | null) {
  const all = policy.available.flatMap(({ name, metrics }) =>
    metrics.map((metric) => ({ algorithm: name, metric })),
  );
  const isNow = (each: { algorithm: string; metric: string }) => keyOf(each) === keyOf(policy);
  const others = all.filter((each) => !isNow(each));
  const value = (each: { algorithm: string; metric: string }) =>
    (sort && found.get(keyOf(each))?.totals?.[sort]) ?? Number.POSITIVE_INFINITY;
  if (sort) others.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  const known = kindOf(policy, policy.algorithm) !== undefined;
  return known ? [{ algorithm: policy.algorithm, metric: policy.metric }, ...others] : all;
}
