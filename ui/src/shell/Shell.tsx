import { ActionIcon, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, NavLink, useLocation } from "react-router";
import { policyQuery } from "../api/policyQueries";
import { LiveBadge } from "../live/LiveBadge";
import { DiskBanner, OutageBanner } from "../live/OutageBanner";
import { useOutage } from "../live/useOutage";
import { type WhyNot, whyNot } from "../may/may";
import { useMe } from "../may/useMay";
import { Account } from "./Account";
import { ColorScheme } from "./ColorScheme";
import { Code } from "./code";
import { Icon } from "./Icon";
import { Part } from "./Part";
import { SCREENS } from "./places";
import classes from "./Shell.module.css";
import { useShortcuts } from "./useShortcuts";

const KeysDialog = new Code("keys", () => import("./KeysDialog")).Component;

const Palette = new Code("palette", () => import("./Palette")).Component;

export function Shell({ children }: { children: ReactNode }) {
  const [over, setOver] = useState<"keys" | "palette" | null>(null);
  const close = () => setOver(null);
  useShortcuts(setOver, over !== null);
  const outage = useOutage();
  const me = useMe();
  const nav = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  // Scroll to the current screen's name if not all names fit.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the mark moves with the address.
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const bar = nav.current;
      const mark = bar?.querySelector<HTMLElement>("[aria-current=page]");
      if (bar && mark) bar.scrollLeft = mark.offsetLeft - (bar.clientWidth - mark.offsetWidth) / 2;
    });
    return () => cancelAnimationFrame(frame);
  }, [pathname]);
  return (
    <>
      <a className={classes.skip} href="#main">
        Skip to the content
      </a>
      <header className={classes.header}>
        <div className={classes.inner}>
          <Link to="/" className={classes.brand}>
            <img src="/ui/favicon.svg" alt="" width={26} height={26} />
            <span>Schedulearn</span>
          </Link>
          <nav ref={nav} className={classes.nav} aria-label="Screens">
            {SCREENS.map(({ to, name, needs }) => (
              <Place key={to} to={to} name={name} whyNot={needs ? whyNot(me, needs) : null} />
            ))}
          </nav>
          <div className={classes.right}>
            <PolicyChip />
            <LiveBadge />
            <Tooltip label="Find anything (Ctrl+K)">
              <ActionIcon variant="default" aria-label="Find anything" onClick={() => setOver("palette")}>
                <Icon name="search" />
              </ActionIcon>
            </Tooltip>
            <ColorScheme />
            <Account />
          </div>
        </div>
        {outage ? <OutageBanner outage={outage} /> : <DiskBanner />}
      </header>
      <main id="main" className={classes.main} tabIndex={-1} data-old={outage !== null}>
        {children}
      </main>
      {over === "keys" && (
        <Part what="list of keys" fallback={null}>
          <KeysDialog onClose={close} />
        </Part>
      )}
      {over === "palette" && (
        <Part what="search" fallback={null}>
          {/* A dialog opened in place of the palette stays open when the palette closes. */}
          <Palette
            onClose={() => setOver((now) => (now === "palette" ? null : now))}
            onKeys={() => setOver("keys")}
          />
        </Part>
      )}
    </>
  );
}

/** Link to a screen. Without permission it is disabled and states the reason. */
function Place({ to, name, whyNot }: { to: string; name: string; whyNot: WhyNot }) {
  if (whyNot === null)
    return (
      <NavLink to={to} end={to === "/"} className={classes.link} data-name={name}>
        {name}
      </NavLink>
    );
  return (
    <Tooltip label={whyNot} multiline maw={320}>
      {/* biome-ignore lint/a11y/useValidAnchor: a link without a target while the user lacks permission. */}
      <a className={classes.link} data-name={name} aria-disabled aria-description={whyNot}>
        {name}
      </a>
    </Tooltip>
  );
}

function PolicyChip() {
  const { data } = useQuery(policyQuery);
  if (!data) return null;
  return (
    <Link to="/policy" className={classes.policy} data-trouble={data.problem !== ""}>
      <span className={classes.policyLabel}>policy</span> {data.algorithm}
      {data.metric !== "default" && <span className={classes.metric}> · {data.metric}</span>}
      {data.problem && " (!)"}
    </Link>
  );
}
