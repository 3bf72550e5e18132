import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { policyQuery } from "../../api/policyQueries";
import { Ago } from "../../format/Elapsed";
import { ErrorNotice } from "../../shell/ErrorNotice";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { PolicyForm } from "./PolicyForm";

export default function PolicyScreen() {
  const found = useQuery(policyQuery);
  return (
    <Screen title="Policy">
      <Loaded query={found} title="The policy can't be read">
        {(policy) => (
          <>
            <Text c="dimmed" mb="md" maw={720}>
              <strong data-testid="algorithm">{policy.algorithm}</strong> is active
              {policy.since ? (
                <>
                  , set <Ago at={policy.since} />
                </>
              ) : (
                ", the default"
              )}
              . A new policy takes effect in the next scheduling cycle; running jobs continue.
            </Text>
            {policy.problem && <ErrorNotice title="The policy fails" error={new Error(policy.problem)} />}
            <PolicyForm policy={policy} />
          </>
        )}
      </Loaded>
    </Screen>
  );
}
