/** Keyboard shortcuts that work everywhere except in a field. Two keys are pressed in sequence. */
export const SHORTCUTS = [
  { keys: "/", does: "search, or list the jobs", to: "" },
  { keys: "n", does: "submit a job", to: "/submit" },
  { keys: "g o", does: "overview", to: "/" },
  { keys: "g j", does: "jobs", to: "/jobs" },
  { keys: "g w", does: "sweeps", to: "/sweeps" },
  { keys: "g t", does: "timeline", to: "/timeline" },
  { keys: "g h", does: "hosts", to: "/hosts" },
  { keys: "g p", does: "policy", to: "/policy" },
  { keys: "g u", does: "usage", to: "/usage" },
  { keys: "g e", does: "events", to: "/events" },
  { keys: "g m", does: "people", to: "/people" },
  { keys: "g s", does: "settings", to: "/settings" },
  { keys: "j", does: "next job in the list", to: "" },
  { keys: "k", does: "previous job", to: "" },
  { keys: "x", does: "select the job", to: "" },
  { keys: "?", does: "these keys", to: "" },
] as const;

/** Shortcuts that a screen or the browser handles, listed with the others. */
export const OTHER_KEYS = [
  { keys: "Enter", does: "open the job" },
  { keys: "Ctrl+Enter", does: "submit the form" },
  { keys: "Ctrl+K", does: "find jobs, hosts, screens, actions" },
  { keys: "F6", does: "leave a terminal" },
];

const PAUSE_MS = 1_500;

/** Recognizer of key sequences. `feed` returns the shortcut that a key completes. */
export class Keys {
  #first = "";
  #at = 0;

  feed(key: string, now: number): (typeof SHORTCUTS)[number] | undefined {
    const pressed = this.#first && now - this.#at < PAUSE_MS ? `${this.#first} ${key}` : key;
    const found = SHORTCUTS.find(({ keys }) => keys === pressed);
    const begins = SHORTCUTS.some(({ keys }) => keys.startsWith(`${key} `));
    this.#first = !found && begins ? key : "";
    this.#at = now;
    return found;
  }
}
