import { queryClient } from "../api/access";
import { clusterQuery, hostsQuery, jobQuery, jobsQuery, runningNamesQuery, whoQuery } from "../api/queries";
import { wholeMinute } from "../format/useNow";
import { choiceOf, filterOf } from "../jobs/filters";
import { Code } from "./code";

/** The code of each screen but the first. */
export const screens = {
  jobs: new Code("jobs", () => import("../screens/jobs/JobsScreen")),
  job: new Code("job", () => import("../screens/job/JobScreen")),
  sweeps: new Code("sweeps", () => import("../screens/sweeps/SweepsScreen")),
  sweep: new Code("sweep", () => import("../screens/sweeps/SweepScreen")),
  compare: new Code("compare", () => import("../screens/compare/CompareScreen")),
  submit: new Code("submit", () => import("../screens/submit/SubmitScreen")),
  timeline: new Code("timeline", () => import("../screens/timeline/TimelineScreen")),
  hosts: new Code("hosts", () => import("../screens/hosts/HostsScreen")),
  policy: new Code("policy", () => import("../screens/policy/PolicyScreen")),
  usage: new Code("usage", () => import("../screens/usage/UsageScreen")),
  events: new Code("events", () => import("../screens/events/EventsScreen")),
  people: new Code("people", () => import("../screens/people/PeopleScreen")),
  settings: new Code("settings", () => import("../screens/settings/SettingsScreen")),
};

/** The code of what screens show only sometimes, or after the rest. */
export const parts = {
  keys: new Code("keys", () => import("./KeysDialog")),
  palette: new Code("palette", () => import("./Palette")),
  plot: new Code("plot", () => import("../chart/Plot")),
  wholeWindow: new Code("whole window", () => import("../chart/WholeWindow")),
  pastCharts: new Code("past charts", () => import("../screens/overview/PastCharts")),
  search: new Code("search", () => import("../screens/sweeps/search/SearchView")),
  analysis: new Code("analysis", () => import("../screens/sweeps/experiment/ExperimentView")),
  training: new Code("training", () => import("../screens/job/Training")),
  files: new Code("files", () => import("../screens/job/Files")),
  terminal: new Code("terminal", () => import("../terminal/TerminalTab")),
  hostHistory: new Code("host history", () => import("../screens/hosts/HostHistory")),
};

const isScreen = (name: string): name is keyof typeof screens => name in screens;

const FIRST_MS = 1_500;

/** Fetches all code when there is nothing else to do, one after the other: a screen opens at once, and also when the
 * service has stopped. Gives back what ends it. */
export function prefetchWhenIdle(): () => void {
  const rest = [...Object.values(screens), ...Object.values(parts)];
  let ended = false;
  function next() {
    if (ended) return;
    const code = rest.shift();
    if (code) whenIdle(() => void code.prefetch().then(next));
  }
  const timer = setTimeout(next, FIRST_MS);
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** Safari has no requestIdleCallback. */
const whenIdle = (act: () => void) => (window.requestIdleCallback ?? ((then) => setTimeout(then, 100)))(act);

/** Fetches the code and the data of the screen at an address at the same time, before anything is drawn. What fails
 * here is fetched again, and told, by the screen itself. */
export function begin({ pathname, search }: Pick<Location, "pathname" | "search">) {
  void queryClient.prefetchQuery(whoQuery); // what one may do is shown everywhere
  const [name = "", id] = pathname.replace(/^\/ui\/?/, "").split("/");
  if (name === "") {
    void queryClient.prefetchQuery(clusterQuery);
    void queryClient.prefetchQuery(hostsQuery);
  } else if (name === "jobs" && id) {
    void screens.job.prefetch();
    void queryClient.prefetchQuery(jobQuery(id));
  } else if (isScreen(name)) {
    void screens[name].prefetch();
    if (name === "jobs") {
      void queryClient.prefetchQuery(whoQuery).then(() => {
        const choice = choiceOf(new URLSearchParams(search), queryClient.getQueryData(whoQuery.queryKey));
        return queryClient.prefetchInfiniteQuery(jobsQuery(filterOf(choice, wholeMinute())));
      });
      void queryClient.prefetchQuery(hostsQuery);
    }
    if (name === "hosts") {
      void queryClient.prefetchQuery(hostsQuery);
      void queryClient.prefetchQuery(runningNamesQuery);
    }
  }
}
