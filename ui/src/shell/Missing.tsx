import { Link } from "react-router";
import { Screen } from "./Screen";

export function Missing() {
  return (
    <Screen title="Page not found">
      <p>
        This page does not exist. <Link to="/">To the overview</Link>
      </p>
    </Screen>
  );
}
