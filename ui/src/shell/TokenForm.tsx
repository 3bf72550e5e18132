import { Button, PasswordInput, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { access, queryClient } from "../api/access";
import { openSession } from "../api/session";
import { tokenIn } from "../tokens/tokens";
import { InstallClient } from "./InstallClient";
import { SignInWays } from "./SignInWays";
import classes from "./TokenForm.module.css";

/** Login form in place of the page. It is shown when the service or a user asks for it. */
export function TokenForm() {
  const [token, setToken] = useState("");
  const enter = useMutation({
    mutationFn: openSession,
    onSuccess: () => {
      queryClient.clear();
      access.set(false);
    },
  });
  return (
    <main className={classes.page}>
      <form
        className={`card ${classes.form}`}
        onSubmit={(event) => {
          event.preventDefault();
          enter.mutate(tokenIn(token));
        }}
      >
        <Stack gap="md">
          <img src="/ui/favicon.svg" alt="" width={40} height={40} />
          <h1>Schedulearn</h1>
          <SignInWays />
          <Text size="sm">
            Sign in with your token, which begins with <span className="mono">sl_</span>, or with the whole
            line that you were sent. An admin of this service creates it.
          </Text>
          <PasswordInput
            label="Token"
            autoComplete="current-password"
            data-autofocus
            value={token}
            onChange={(event) => setToken(event.currentTarget.value)}
            error={enter.error?.message}
          />
          <Button type="submit" loading={enter.isPending} disabled={token.trim() === ""}>
            Sign in
          </Button>
          <Text size="sm" c="dimmed">
            If you run this service, its own token works too. It was printed at the start, and is in the file{" "}
            <span className="mono">token</span> of its data folder.
          </Text>
          <InstallClient />
        </Stack>
      </form>
    </main>
  );
}
