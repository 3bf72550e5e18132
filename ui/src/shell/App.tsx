import { useEffect, useSyncExternalStore } from "react";
import { Route, Routes, useLocation } from "react-router";
import { access } from "../api/access";
import { LiveProvider } from "../live/LiveProvider";
import OverviewScreen from "../screens/overview/OverviewScreen";
import { prefetchWhenIdle } from "./code";
import { Loading } from "./Loading";
import { Missing } from "./Missing";
import { Part } from "./Part";
import { Shell } from "./Shell";
import { screens } from "./screens";
import { TokenForm } from "./TokenForm";

const JobsScreen = screens.jobs.Component;
const JobScreen = screens.job.Component;
const SweepsScreen = screens.sweeps.Component;
const SweepScreen = screens.sweep.Component;
const CompareScreen = screens.compare.Component;
const UsageScreen = screens.usage.Component;
const PeopleScreen = screens.people.Component;
const EventsScreen = screens.events.Component;
const LoginScreen = screens.login.Component;
const SettingsScreen = screens.settings.Component;
const SubmitScreen = screens.submit.Component;
const TimelineScreen = screens.timeline.Component;
const HostsScreen = screens.hosts.Component;
const PolicyScreen = screens.policy.Component;

export function App() {
  const tokenNeeded = useSyncExternalStore(access.subscribe, access.isNeeded);
  if (tokenNeeded) return <TokenForm />;
  return (
    <LiveProvider>
      <Shell>
        <Screens />
      </Shell>
    </LiveProvider>
  );
}

/** Screen at the current address. Each address has its own Part, so a failure leaves the others alone. */
function Screens() {
  const { pathname } = useLocation();
  useEffect(prefetchWhenIdle, []);
  return (
    <Part key={pathname} what="screen" reloads fallback={<Loading />}>
      <Routes>
        <Route index element={<OverviewScreen />} />
        <Route path="jobs" element={<JobsScreen />} />
        <Route path="jobs/:id" element={<JobScreen />} />
        <Route path="sweeps" element={<SweepsScreen />} />
        <Route path="sweeps/:id" element={<SweepScreen />} />
        <Route path="compare" element={<CompareScreen />} />
        <Route path="submit" element={<SubmitScreen />} />
        <Route path="timeline" element={<TimelineScreen />} />
        <Route path="hosts" element={<HostsScreen />} />
        <Route path="policy" element={<PolicyScreen />} />
        <Route path="usage" element={<UsageScreen />} />
        <Route path="events" element={<EventsScreen />} />
        <Route path="people" element={<PeopleScreen />} />
        <Route path="login" element={<LoginScreen />} />
        <Route path="settings" element={<SettingsScreen />} />
        <Route path="*" element={<Missing />} />
      </Routes>
    </Part>
  );
}
