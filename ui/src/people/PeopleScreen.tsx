import { useQueries, useQuery } from "@tanstack/react-query";
import { quotasQuery, usersQuery, whoQuery } from "../api/queries";
import { Loaded } from "../shell/Loaded";
import { Loading } from "../shell/Loading";
import { Screen } from "../shell/Screen";
import classes from "./PeopleScreen.module.css";
import { Quotas } from "./Quotas";
import { Users } from "./Users";
import { You } from "./You";

/** Who one is and what one may have; for admins also everybody else. */
export default function PeopleScreen() {
  const who = useQuery(whoQuery);
  return (
    <Screen title="People">
      <Loaded query={who} title="Who you are can't be read">
        {(me) => (
          <div className={classes.grid}>
            <You me={me} />
            {me.role === "admin" && <Everybody />}
          </div>
        )}
      </Loaded>
    </Screen>
  );
}

function Everybody() {
  // Together: each is as high as what it holds, and would push away what stands below.
  const pending = useQueries({ queries: [usersQuery, quotasQuery] }).some((each) => each.isPending);
  if (pending) return <Loading />;
  return (
    <>
      <Users />
      <Quotas />
    </>
  );
}
