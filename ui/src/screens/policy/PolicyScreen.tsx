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
              <strong data-testid="algorithm">{policy.algorithm}</strong> decides
              {policy.since ? (
                <>
                  , set <Ago at={policy.since} />
                </>
              ) : (
                ", as it does unless told otherwise"
              )}
              . Another one takes over at the next decision; running jobs run on.
            </Text>
            {policy.problem && (
              <ErrorNotice title="The policy does not decide" error={new Error(policy.problem)} />
            )}
            <PolicyForm policy={policy} />
          </>
        )}
      </Loaded>
    </Screen>
  );
}
