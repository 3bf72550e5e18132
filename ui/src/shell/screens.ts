import { queryClient } from "../api/access";
import { clusterQuery, hostsQuery, jobQuery, jobsQuery, runningNamesQuery, whoQuery } from "../api/queries";
import { wholeMinute } from "../format/useNow";
import { choiceOf, filterOf } from "../jobs/filters";
import { Code } from "./code";

/** Code of each screen except the overview, which is bundled. */
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
  login: new Code("login", () => import("../screens/login/LoginScreen")),
  settings: new Code("settings", () => import("../screens/settings/SettingsScreen")),
};

const isScreen = (name: string): name is keyof typeof screens => name in screens;

/** Load the code and data of a screen in parallel. This begins before anything is drawn. After a failure, the screen
 * itself loads them again and reports errors. */
export function begin({ pathname, search }: Pick<Location, "pathname" | "search">) {
  void queryClient.prefetchQuery(whoQuery); // every screen shows what the user may do
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
