import { useQuery } from "@tanstack/react-query";
import { groupsQuery, quotasQuery, usersQuery, whoQuery } from "../../api/queries";
import { whyNot } from "../../may/may";
import { Loaded, Together } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { Groups } from "./Groups";
import classes from "./PeopleScreen.module.css";
import { Quotas } from "./Quotas";
import { Users } from "./Users";
import { You } from "./You";

/** Screen of the current user and their limits. Admins also see all other users. */
export default function PeopleScreen() {
  const who = useQuery(whoQuery);
  return (
    <Screen title="People">
      <Loaded query={who} title="Your account can't be read">
        {(me) => (
          <div className={classes.grid}>
            <You me={me} />
            {whyNot(me, "manage_people") === null && (
              <Together queries={[usersQuery, quotasQuery, groupsQuery]}>
                <Users me={me} />
                <Quotas />
                <Groups />
              </Together>
            )}
          </div>
        )}
      </Loaded>
    </Screen>
  );
}
