import { queryClient } from "../api/access";
import { clusterQuery, hostsQuery, jobQuery, jobsQuery, runningNamesQuery } from "../api/queries";
import { GROUPS } from "../jobs/states";

/** The code of each screen but the first; fetched when it is wanted. */
export const screens = {
  jobs: () => import("../jobs/JobsScreen"),
  job: () => import("../job/JobScreen"),
  submit: () => import("../submit/SubmitScreen"),
  timeline: () => import("../timeline/TimelineScreen"),
  hosts: () => import("../hosts/HostsScreen"),
  policy: () => import("../policy/PolicyScreen"),
  usage: () => import("../usage/UsageScreen"),
  events: () => import("../events/EventsScreen"),
  settings: () => import("../settings/SettingsScreen"),
};

const isScreen = (name: string): name is keyof typeof screens => name in screens;

/** Fetches the code and the data of the screen at an address at the same time, before anything is drawn. What fails
 * here is fetched again, and told, by the screen itself. */
export function begin({ pathname, search }: Pick<Location, "pathname" | "search">) {
  const [name = "", id] = pathname.replace(/^\/ui\/?/, "").split("/");
  if (name === "") {
    void queryClient.prefetchQuery(clusterQuery);
    void queryClient.prefetchQuery(hostsQuery);
  } else if (name === "jobs" && id) {
    screens.job().catch(() => {});
    void queryClient.prefetchQuery(jobQuery(id));
  } else if (isScreen(name)) {
    screens[name]().catch(() => {});
    if (name === "jobs" && !search) {
      void queryClient.prefetchInfiniteQuery(jobsQuery({ states: GROUPS.all.states, text: "" }));
    }
    if (name === "hosts") {
      void queryClient.prefetchQuery(hostsQuery);
      void queryClient.prefetchQuery(runningNamesQuery);
    }
  }
}
