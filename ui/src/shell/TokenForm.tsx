import { Button, PasswordInput, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { access, queryClient } from "../api/access";
import { openSession } from "../api/session";
import classes from "./TokenForm.module.css";

/** Shown instead of everything else once the service has asked for its token. */
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
          enter.mutate(token.trim());
        }}
      >
        <Stack gap="md">
          <img src="/ui/favicon.svg" alt="" width={40} height={40} />
          <h1>Schedulearn</h1>
          <Text size="sm" c="dimmed">
            This service asks for its token. It was printed when the service started, and stands in the file{" "}
            <span className="mono">token</span> of its data folder.
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
            Continue
          </Button>
        </Stack>
      </form>
    </main>
  );
}
