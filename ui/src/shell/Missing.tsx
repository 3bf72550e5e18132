import { Link } from "react-router";
import { Screen } from "./Screen";

export function Missing() {
  return (
    <Screen title="Not here">
      <p>
        There is no such page. <Link to="/">To the overview</Link>
      </p>
    </Screen>
  );
}
