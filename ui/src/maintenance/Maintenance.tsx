import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../api/keys";
import type { MaintenanceWindow } from "../api/types";
import { DataTable } from "../components/DataTable";
import { useListChange } from "../components/useListChange";
import { When } from "../format/Elapsed";
import { GuardedButton } from "../may/GuardedButton";
import { useWhyNot } from "../may/useMay";
import { Confirm } from "../shell/Confirm";
import { deleteWindow, maintenanceQuery } from "./queries";

/** Maintenance windows that are not over. Nothing is shown while there are none. */
export function Maintenance() {
  const { data } = useQuery(maintenanceQuery);
  if (!data || data.items.length === 0) return null;
  return (
    <DataTable label="Maintenance" columns={["Maintenance of", "From", "To", "Repeated", "Reason"]} actions>
      {data.items.map((window) => (
        <Row key={window.id} window={window} />
      ))}
    </DataTable>
  );
}

function Row({ window }: { window: MaintenanceWindow }) {
  const [asked, setAsked] = useState(false);
  const whyNot = useWhyNot("change_hosts");
  const remove = useMutation({
    mutationFn: deleteWindow,
    ...useListChange(keys.maintenance, () => setAsked(false)),
  });
  const hosts = window.hosts.join(", ") || "all hosts";
  return (
    <tr>
      <td>{hosts}</td>
      <td>
        <When at={window.start} />
      </td>
      <td>
        <When at={window.end} />
      </td>
      <td>{window.every ? `${window.every} ${window.time_zone}` : "once"}</td>
      <td>{window.reason}</td>
      <td>
        <GuardedButton
          size="xs"
          variant="default"
          whyNot={whyNot}
          aria-label={`Delete the maintenance of ${hosts}`}
          onClick={() => setAsked(true)}
        >
          Delete
        </GuardedButton>
        {asked && (
          <Confirm
            title={`Delete the maintenance of ${hosts}?`}
            action="Delete the window"
            pending={remove.isPending}
            onConfirm={() => remove.mutate(window.id)}
            onClose={() => setAsked(false)}
          >
            Hosts that it has drained return to service at once.
          </Confirm>
        )}
      </td>
    </tr>
  );
}
