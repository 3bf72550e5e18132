import { lazy, Suspense, useSyncExternalStore } from "react";
import { Route, Routes } from "react-router";
import { access } from "../api/access";
import { LiveProvider } from "../live/LiveProvider";
import OverviewScreen from "../overview/OverviewScreen";
import { Loading } from "./Loading";
import { Missing } from "./Missing";
import { Shell } from "./Shell";
import { screens } from "./screens";
import { TokenForm } from "./TokenForm";

const JobsScreen = lazy(screens.jobs);
const JobScreen = lazy(screens.job);
const UsageScreen = lazy(screens.usage);
const EventsScreen = lazy(screens.events);
const SettingsScreen = lazy(screens.settings);
const SubmitScreen = lazy(screens.submit);
const TimelineScreen = lazy(screens.timeline);
const HostsScreen = lazy(screens.hosts);
const PolicyScreen = lazy(screens.policy);

export function App() {
  const tokenNeeded = useSyncExternalStore(access.subscribe, access.isNeeded);
  if (tokenNeeded) return <TokenForm />;
  return (
    <LiveProvider>
      <Shell>
        <Suspense fallback={<Loading />}>
          <Routes>
            <Route index element={<OverviewScreen />} />
            <Route path="jobs" element={<JobsScreen />} />
            <Route path="jobs/:id" element={<JobScreen />} />
            <Route path="submit" element={<SubmitScreen />} />
            <Route path="timeline" element={<TimelineScreen />} />
            <Route path="hosts" element={<HostsScreen />} />
            <Route path="policy" element={<PolicyScreen />} />
            <Route path="usage" element={<UsageScreen />} />
            <Route path="events" element={<EventsScreen />} />
            <Route path="settings" element={<SettingsScreen />} />
            <Route path="*" element={<Missing />} />
          </Routes>
        </Suspense>
      </Shell>
    </LiveProvider>
  );
}
