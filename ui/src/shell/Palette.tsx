import { Modal, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { createSpotlight, Spotlight } from "@mantine/spotlight";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useNavigate } from "react-router";
import { findJobsQuery, hostsQuery } from "../api/queries";
import { plural } from "../format/number";
import { type WhyNot, whyNot } from "../may/may";
import { useMe } from "../may/useMay";
import { Icon, type IconName } from "./Icon";
import classes from "./Palette.module.css";
import { SCREENS } from "./places";
import { BY_KEY } from "./useShortcuts";

const SETTLE_MS = 150;
const MOST_HOSTS = 6;

interface Entry {
  label: string;
  /** Details, or the reason why the entry can't be chosen. */
  about: string;
  off?: boolean;
  icon: IconName;
  act: () => void;
}

const [store, spotlight] = createSpotlight();

/** Return the state of an entry that may lack permission. The state includes the reason. */
const guarded = (whyNot: WhyNot) => ({ about: whyNot ?? "", off: whyNot !== null });

/** Select the first entry. Spotlight does so after a key, but not after a reply of the service. */
function selectFirst() {
  const list = document.getElementById(store.getState().listId);
  list?.querySelector("[data-selected]")?.removeAttribute("data-selected");
  list?.querySelector("[data-action]")?.setAttribute("data-selected", "true");
  store.updateState((state) => ({ ...state, selected: 0 }));
}

/** Palette that finds jobs, hosts, screens and actions by name. It opens on every screen. */
export default function Palette({ onClose, onKeys }: { onClose: () => void; onKeys: () => void }) {
  const [text, setText] = useState("");
  const [settled] = useDebouncedValue(text.trim(), SETTLE_MS);
  const navigate = useNavigate();
  const { setColorScheme } = useMantineColorScheme();
  const other = useComputedColorScheme("light") === "light" ? "dark" : "light";
  const { data: jobs } = useQuery(findJobsQuery(settled));
  const { data: hosts } = useQuery(hostsQuery);
  const me = useMe();
  useEffect(spotlight.open, []);

  const go = (to: string) => () => navigate(to, { state: BY_KEY });
  const wanted = text.trim().toLowerCase();
  const fits = (...words: string[]) => words.some((word) => word.toLowerCase().includes(wanted));
  const groups: { name: string; entries: Entry[] }[] = [
    {
      name: "Jobs",
      // Results of the earlier text are shown until newer ones arrive, if they still match.
      entries: (jobs?.items ?? [])
        .filter((job) => fits(job.name, job.id))
        .map((job) => ({
          label: job.name,
          about: [job.state, job.id, job.user].filter(Boolean).join(" · "),
          icon: "play",
          act: go(`/jobs/${job.id}`),
        })),
    },
    {
      name: "Hosts",
      entries: (wanted === "" ? [] : (hosts ?? []))
        .filter((host) => fits(host.id))
        .slice(0, MOST_HOSTS)
        .map((host) => ({
          label: host.id,
          about: plural(host.gpus.length, "GPU"),
          icon: "square",
          act: go(`/hosts#${encodeURIComponent(host.id)}`),
        })),
    },
    {
      name: "Screens",
      entries: SCREENS.filter(({ name }) => fits(name)).map(({ to, name, needs }) => ({
        label: name,
        ...guarded(needs ? whyNot(me, needs) : null),
        icon: "resize",
        act: go(to),
      })),
    },
    {
      name: "Actions",
      entries: [
        {
          label: "Submit a job",
          ...guarded(whyNot(me, "submit")),
          icon: "plus",
          act: go("/submit"),
        } as const,
        {
          label: "See failed jobs",
          about: "in the last 24 h",
          icon: "alert",
          act: go("/jobs?show=failed&ended=24h"),
        } as const,
        { label: "Choose a policy", about: "", icon: "repeat", act: go("/policy") } as const,
        {
          label: `Use the ${other} colors`,
          about: "",
          icon: other === "dark" ? "moon" : "sun",
          act: () => setColorScheme(other),
        } as const,
        { label: "Show the keys", about: "?", icon: "search", act: onKeys } as const,
      ].filter(({ label }) => fits(label)),
    },
  ];
  const some = groups.filter(({ entries }) => entries.length > 0);
  const listed = some
    .flatMap(({ entries }) => entries.map(({ label, about }) => `${label} ${about}`))
    .join("\n");
  // Enter chooses the first entry, even if it arrived after the last key.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the effect runs when the list changes.
  useEffect(selectFirst, [listed]);
  return (
    <Spotlight.Root
      store={store}
      query={text}
      onQueryChange={setText}
      onSpotlightClose={onClose}
      shortcut={null}
      scrollable
      maxHeight={440}
    >
      <Modal.Title className={classes.title}>Find</Modal.Title>
      <Spotlight.Search
        aria-label="Find jobs, hosts, screens, actions"
        placeholder="Jobs, hosts, screens, actions"
        leftSection={<Icon name="search" />}
      />
      <Spotlight.ActionsList>
        {some.map(({ name, entries }) => (
          <Spotlight.ActionsGroup key={name} label={name}>
            {entries.map(({ label, about, off = false, icon, act }) => (
              <Spotlight.Action
                key={`${label} ${about}`}
                label={label}
                description={about}
                leftSection={<Icon name={icon} />}
                onClick={off ? undefined : act}
                closeSpotlightOnTrigger={!off}
                c={off ? "dimmed" : undefined}
                aria-disabled={off}
              />
            ))}
          </Spotlight.ActionsGroup>
        ))}
        {some.length === 0 && <Spotlight.Empty>No name contains this text.</Spotlight.Empty>}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}
