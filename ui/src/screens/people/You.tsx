import { Text } from "@mantine/core";
import { Link } from "react-router";
import type { WhoAmI } from "../../api/types";
import { Fact, Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { When } from "../../format/Elapsed";
import { plural } from "../../format/number";
import classes from "./PeopleScreen.module.css";
import { guaranteeText, type Use, usesOf } from "./quotas";

const MAY: Record<WhoAmI["role"], string> = {
  admin: "do everything",
  user: "read everything, submit jobs, and change your own",
  viewer: "read everything",
  metrics: "read /metrics",
};

/** Panel of the current user, as the service identifies them. */
export function You({ me }: { me: WhoAmI }) {
  const uses = me.quota ? usesOf(me.quota) : [];
  return (
    <Panel title="You">
      <dl className={`${panel.facts} ${classes.facts}`}>
        <Fact name="Name">
          <Link to={`/jobs?user=${encodeURIComponent(me.name)}`} title="Your jobs">
            {me.name}
          </Link>
        </Fact>
        <Fact name="Role">
          {me.role}: you may {MAY[me.role]}
          {!me.sees_all_jobs && "; others' jobs are hidden from you"}
        </Fact>
        <Fact name="Identified by">{identifiedBy(me)}</Fact>
        {me.expires_at && (
          <Fact name="Until">
            <When at={me.expires_at} />
          </Fact>
        )}
      </dl>
      {uses.length === 0 ? (
        <Text size="sm" c="dimmed" mt="sm">
          No quota applies to you.
        </Text>
      ) : (
        <Uses label="Your quota" uses={uses} />
      )}
      {me.group && (
        <>
          <Text size="sm" mt="md">
            With the group {me.group.name}
            {me.group.borrowed !== null && (
              <>
                : {plural(me.group.used?.gpus ?? 0, "GPU")} held,{" "}
                {guaranteeText(me.group.guarantee) || "none"} guaranteed, {me.group.borrowed} borrowed
              </>
            )}
          </Text>
          <Uses label="The quota of your group" uses={usesOf(me.group)} />
        </>
      )}
    </Panel>
  );
}

function identifiedBy(me: WhoAmI): string {
  if (me.signed_in) return "your sign-in";
  return me.token_id === null ? "your account: you run this service" : `token ${me.token_id}`;
}

function Uses({ label, uses }: { label: string; uses: Use[] }) {
  return (
    <ul className={classes.uses} aria-label={label}>
      {uses.map(({ name, used, bound, share }) => (
        <li key={name}>
          {name}: {used} of {bound}
          <span className={classes.track} aria-hidden>
            <span className={classes.level} data-full={share >= 1} style={{ width: `${share * 100}%` }} />
          </span>
        </li>
      ))}
    </ul>
  );
}
