import { ActionIcon, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { Link } from "react-router";
import { access } from "../api/access";
import { closeSession } from "../api/session";
import { useMe } from "../may/useMay";
import { Icon } from "./Icon";
import classes from "./Shell.module.css";

/** Menu of the current user and their own things. */
export function Account() {
  const me = useMe();
  const leave = useMutation({
    mutationFn: closeSession,
    // Reloads the page, so that no data stays. Without a session it asks for a token.
    onSuccess: () => window.location.assign("/ui/"),
    onError: (error) => notifications.show({ color: "red", message: error.message }),
  });
  return (
    <Menu position="bottom-end" width={230}>
      <Menu.Target>
        <ActionIcon variant="default" aria-label={me ? `Account of ${me.name}` : "Account"}>
          <Icon name="person" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {me && (
          <>
            <Menu.Label className={classes.account}>
              <strong>{me.name}</strong> · {me.role}
            </Menu.Label>
            <Menu.Item component={Link} to={`/jobs?user=${encodeURIComponent(me.name)}`}>
              My jobs
            </Menu.Item>
            {!("manage_tokens" in me.refused) && (
              <Menu.Item component={Link} to="/settings">
                My tokens
              </Menu.Item>
            )}
            <Menu.Item component={Link} to="/people">
              My quota
            </Menu.Item>
            <Menu.Divider />
          </>
        )}
        {me?.logged_in === false ? (
          <Menu.Item onClick={() => access.set(true)}>Sign in with a token</Menu.Item>
        ) : (
          <Menu.Item onClick={() => leave.mutate()}>Sign out</Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
