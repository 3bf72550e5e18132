import { Button, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { revokeToken } from "../../api/commands";
import { keys } from "../../api/keys";
import { tokensQuery } from "../../api/queries";
import type { Token, WhoAmI } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import panel from "../../components/Panel.module.css";
import { useListChange } from "../../components/useListChange";
import { Ago, When } from "../../format/Elapsed";
import { Confirm } from "../../shell/Confirm";
import { Loaded } from "../../shell/Loaded";
import { AddToken } from "../../tokens/AddToken";

/** Table of tokens by name. */
export function Tokens({ me }: { me: WhoAmI }) {
  const tokens = useQuery(tokensQuery);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const revoke = useMutation({
    mutationFn: revokeToken,
    ...useListChange(keys.tokens, () => setRevoking(null)),
  });
  return (
    <Panel title="Tokens" action={<AddToken me={me} />}>
      <Text size="sm" c="dimmed" mb="sm">
        Create one per person or program, so that each can be revoked separately. A token never has more
        rights than its owner.{" "}
        {tokens.data?.required === false &&
          "On this machine, only the account that runs the service needs no token."}
      </Text>
      <Loaded query={tokens} title="The tokens can't be read">
        {({ items }) =>
          items.length === 0 ? (
            <Text size="sm">None yet. Create one for each person who should use this service.</Text>
          ) : (
            <DataTable columns={["Name", "Owner", "Role", "Created", "Ends", "Last used"]} actions>
              {items.map((token) => (
                <tr key={token.id}>
                  <td>{token.name}</td>
                  <td>{token.owner}</td>
                  <td>{token.role}</td>
                  <td className={panel.nowrap}>
                    <Ago at={token.created_at} />
                  </td>
                  <td className={panel.nowrap}>
                    {token.expires_at ? <When at={token.expires_at} /> : "never"}
                  </td>
                  <td className={panel.nowrap}>
                    {token.last_used_at ? <Ago at={token.last_used_at} /> : "never"}
                  </td>
                  <td>
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`Revoke ${token.name}`}
                      onClick={() => setRevoking(token)}
                    >
                      Revoke
                    </Button>
                  </td>
                </tr>
              ))}
            </DataTable>
          )
        }
      </Loaded>
      {revoking && (
        <Confirm
          title={`Revoke ${revoking.name}?`}
          action="Revoke the token"
          pending={revoke.isPending}
          onConfirm={() => revoke.mutate(revoking.id)}
          onClose={() => setRevoking(null)}
        >
          Requests with it are rejected from now on, and its sessions end. This can't be undone.
        </Confirm>
      )}
    </Panel>
  );
}
