import { Button, Group, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { hostsQuery, jobsQuery, LIVE_PAGES, whoQuery } from "../../api/queries";
import type { Job, Sweep } from "../../api/types";
import { MOST_CURVES } from "../../chart/curves";
import { count } from "../../format/number";
import { useNow } from "../../format/useNow";
import { CancelDialog } from "../../jobs/CancelDialog";
import { EmptyJobs } from "../../jobs/EmptyJobs";
import { choiceOf, filterOf } from "../../jobs/filters";
import { canCancel, groupCount } from "../../jobs/states";
import { GuardedButton } from "../../may/GuardedButton";
import { whyNot, whyNotOf } from "../../may/may";
import { Schedules } from "../../schedules/Schedules";
import { Icon } from "../../shell/Icon";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { useAddressText, useSetAddress } from "../../shell/useAddress";
import { sweepsQuery } from "../../sweeps/queries";
import { ClusterStrip } from "./ClusterStrip";
import { FailureGroups } from "./FailureGroups";
import { JobFilters } from "./JobFilters";
import classes from "./JobsScreen.module.css";
import { JobsTable } from "./JobsTable";

const MINUTE_MS = 60_000;
const NO_SWEEPS: ReadonlyMap<string, Sweep> = new Map();

export default function JobsScreen() {
  const [address] = useSearchParams();
  const set = useSetAddress();
  const who = useQuery(whoQuery);
  const choice = choiceOf(address, who.data);
  const text = useAddressText("q");
  const minute = useNow(MINUTE_MS);
  const query = jobsQuery(filterOf(choice, minute));
  const { data: hosts } = useQuery(hostsQuery);
  const queries = useQueryClient();
  const jobs = useInfiniteQuery({
    ...query,
    // The jobs shown depend on the user.
    enabled: ({ state }) => !who.isPending && (state.data?.pages.length ?? 0) <= LIVE_PAGES,
  });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [cancelling, setCancelling] = useState(false);

  const rows = useMemo(() => jobs.data?.pages.flatMap((page) => page.items) ?? [], [jobs.data]);
  const swept = rows.some((job) => job.sweep !== null);
  const { data: sweeps } = useQuery({ ...sweepsQuery, enabled: swept });
  const known = useMemo(
    () => (sweeps ? new Map(sweeps.items.map((sweep) => [sweep.id, sweep])) : NO_SWEEPS),
    [sweeps],
  );
  const still = (jobs.data?.pages.length ?? 0) > LIVE_PAGES;
  const { hasNextPage, isFetching, fetchNextPage } = jobs;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetching) fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  const counts = jobs.data?.pages.at(-1)?.counts ?? {};
  const chosen = rows.filter((job) => selected.has(job.id));
  // A finished job can't be cancelled.
  const running = chosen.filter((job) => canCancel(job.state));
  const mayChange = useCallback((job: Job) => whyNotOf(who.data, job.user) === null, [who.data]);
  const mine = running.filter(mayChange);

  const everybodys = !(choice.text || choice.user || choice.label || choice.host || choice.ended);
  const never = jobs.data && everybodys && groupCount("all", counts) === 0;
  return (
    <Screen
      title="Jobs"
      actions={
        <GuardedButton whyNot={whyNot(who.data, "submit")} to="/submit" leftSection={<Icon name="plus" />}>
          Submit a job
        </GuardedButton>
      }
    >
      <ClusterStrip />
      <Schedules />
      <Loaded query={jobs} title="The jobs can't be read">
        {() =>
          never ? (
            <EmptyJobs />
          ) : (
            <>
              <JobFilters
                choice={choice}
                onGroup={(next) => set("show", next === "all" ? null : next)}
                me={who.data?.name ?? ""}
                onChoose={(name, value) => set(name, value || (name === "user" ? "" : null))}
                onClear={() => {
                  for (const name of ["label", "host", "ended"]) set(name, null);
                  set("user", "");
                }}
                rows={rows}
                hosts={hosts?.map((host) => host.id) ?? []}
                text={text.typed}
                onText={text.type}
                counts={counts}
              />
              {choice.group === "failed" && <FailureGroups user={choice.user} />}
              {chosen.length > 0 && (
                <Group
                  gap="sm"
                  className={classes.selected}
                  role="group"
                  aria-label="Selected jobs"
                  data-bottom-bar
                >
                  <Text size="sm">{chosen.length} selected</Text>
                  {running.length > 0 && (
                    <GuardedButton
                      size="xs"
                      color="red"
                      whyNot={mine.length > 0 ? null : whyNotOf(who.data, running[0]?.user ?? "")}
                      onClick={() => setCancelling(true)}
                    >
                      Cancel selected
                    </GuardedButton>
                  )}
                  {chosen.length > 1 && chosen.length <= MOST_CURVES && (
                    <Button
                      size="xs"
                      component={Link}
                      to={`/compare?jobs=${chosen.map((job) => job.id).join(",")}`}
                    >
                      Compare
                    </Button>
                  )}
                  <Button size="xs" variant="default" onClick={() => setSelected(new Set())}>
                    Select none
                  </Button>
                </Group>
              )}
              {still && (
                <Group mb="sm" gap="sm" className={classes.still}>
                  <Text size="sm">{count(rows.length)} jobs: long lists are not updated live.</Text>
                  <Button
                    size="xs"
                    variant="default"
                    onClick={() => {
                      window.scrollTo({ top: 0 });
                      queries.resetQueries({ queryKey: query.queryKey });
                    }}
                  >
                    Show the newest, live
                  </Button>
                </Group>
              )}
              <JobsTable
                rows={rows}
                selected={selected}
                mayChange={mayChange}
                onSelect={setSelected}
                sweeps={known}
                sort={choice.sort}
                onSort={(sort) => set("sort", sort || null)}
                onEnd={onEnd}
              />
              {rows.length === 0 && (
                <Text c="dimmed" ta="center" py="xl" component="div">
                  {choice.user !== "" && choice.user === who.data?.name ? (
                    <>
                      None of your jobs match.{" "}
                      <Button size="compact-sm" variant="subtle" onClick={() => set("user", "")}>
                        Show all users' jobs
                      </Button>
                    </>
                  ) : (
                    "No job matches."
                  )}
                </Text>
              )}
              {jobs.isFetchingNextPage && (
                <Text c="dimmed" ta="center" py="md" role="status">
                  Loading more
                </Text>
              )}
            </>
          )
        }
      </Loaded>
      <CancelDialog
        jobs={mine}
        others={running.length - mine.length}
        opened={cancelling}
        onClose={() => setCancelling(false)}
        onDone={() => setSelected(new Set())}
      />
    </Screen>
  );
}
