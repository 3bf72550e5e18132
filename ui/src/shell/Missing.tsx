import { Link } from "react-router";
import { Screen } from "./Screen";

export function Missing() {
  return (
    <Screen title="Not here">
      <p>
        There is no such page. <Link to="/">All jobs</Link>
      </p>
    </Screen>
  );
}
