import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { jobQuery } from "../api/queries";
import { Loaded } from "../shell/Loaded";
import { Screen } from "../shell/Screen";
import { Presets } from "./Presets";
import { EXAMPLE } from "./presets";
import { SubmitForm } from "./SubmitForm";
import { EMPTY, fromBody, specOf } from "./values";

export default function SubmitScreen() {
  const [address] = useSearchParams();
  const from = address.get("from") ?? "";
  return (
    <Screen title="Submit a job">
      <Presets chosen={from} />
      {from === "" && <SubmitForm key="" initial={EMPTY} />}
      {from === "example" && <SubmitForm key="example" initial={EXAMPLE} />}
      {from !== "" && from !== "example" && (
        <FromJob key={from} id={from} gpus={Number(address.get("gpus")) || null} />
      )}
    </Screen>
  );
}

/** The form filled in with what another job was. `gpus`: other than its own. */
function FromJob({ id, gpus }: { id: string; gpus: number | null }) {
  const job = useQuery({ ...jobQuery(id), refetchInterval: false });
  return (
    <Loaded query={job} title="The job to submit again can't be read">
      {(found) => (
        <SubmitForm
          initial={{ ...fromBody(specOf(found)), ...(gpus && { required_gpus: gpus }) }}
          from={id}
        />
      )}
    </Loaded>
  );
}
