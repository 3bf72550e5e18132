import type { Permission } from "../api/types";

interface Place {
  to: string;
  name: string;
  /** Permission without which the screen is useless. */
  needs?: Permission;
}

/** Screens, in the order of the page header. */
export const SCREENS: readonly Place[] = [
  { to: "/", name: "Overview" },
  { to: "/jobs", name: "Jobs" },
  { to: "/sweeps", name: "Sweeps" },
  { to: "/timeline", name: "Timeline" },
  { to: "/hosts", name: "Hosts" },
  { to: "/policy", name: "Policy" },
  { to: "/usage", name: "Usage" },
  { to: "/events", name: "Events" },
  { to: "/submit", name: "Submit", needs: "submit" },
  { to: "/people", name: "People" },
  { to: "/settings", name: "Settings" },
];
