import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef } from "react";
import { Link, NavLink, useLocation } from "react-router";
import { policyQuery } from "../api/queries";
import { LiveBadge } from "../live/LiveBadge";
import { ColorScheme } from "./ColorScheme";
import classes from "./Shell.module.css";
import { useShortcuts } from "./useShortcuts";

const SCREENS = [
  { to: "/", name: "Overview" },
  { to: "/jobs", name: "Jobs" },
  { to: "/timeline", name: "Timeline" },
  { to: "/hosts", name: "Hosts" },
  { to: "/policy", name: "Policy" },
  { to: "/usage", name: "Usage" },
  { to: "/events", name: "Events" },
  { to: "/submit", name: "Submit" },
  { to: "/settings", name: "Settings" },
];

export function Shell({ children }: { children: ReactNode }) {
  useShortcuts();
  const nav = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  // Where the screens' names do not all fit, that of the present one is to be seen.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another address is what moves the mark.
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
            {SCREENS.map(({ to, name }) => (
              <NavLink key={to} to={to} end={to === "/"} className={classes.link}>
                {name}
              </NavLink>
            ))}
          </nav>
          <div className={classes.right}>
            <PolicyChip />
            <LiveBadge />
            <ColorScheme />
          </div>
        </div>
      </header>
      <main id="main" className={classes.main} tabIndex={-1}>
        {children}
      </main>
    </>
  );
}

function PolicyChip() {
  const { data } = useQuery(policyQuery);
  if (!data) return null;
  return (
    <Link to="/policy" className={classes.policy} data-trouble={data.problem !== ""}>
      <span className={classes.policyLabel}>policy</span> {data.algorithm}
      {data.metric !== "default" && ` · ${data.metric}`}
      {data.problem && " (!)"}
    </Link>
  );
}
