import type { Permission } from "../api/types";

interface Place {
  to: string;
  name: string;
  /** Without it one can do nothing there. */
  needs?: Permission;
}

/** The screens, in the order of their names in the head of the page. */
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
