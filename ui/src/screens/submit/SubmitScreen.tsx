import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import { jobQuery } from "../../api/queries";
import { EMPTY, fromBody, specOf, type Values } from "../../jobs/values";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { Presets } from "./Presets";
import { asFound, EXAMPLE, notebook, tensorboard } from "./presets";
import { SubmitForm } from "./SubmitForm";

export default function SubmitScreen() {
  const [address] = useSearchParams();
  const from = address.get("from") ?? "";
  const of = address.get("of") ?? "";
  const preset = useMemo(() => presetOf(from, of), [from, of]);
  return (
    <Screen title="Submit a job">
      <Presets chosen={from} />
      {preset !== null ? (
        <SubmitForm key={`${from} ${of}`} initial={preset} />
      ) : (
        <FromJob
          key={from}
          id={from}
          gpus={Number(address.get("gpus")) || null}
          found={address.get("as") === "found"}
          advised={address.get("as") === "advised"}
        />
      )}
    </Screen>
  );
}

/** Return the initial form values; null: they come from an earlier job. */
function presetOf(from: string, of: string): Values | null {
  if (from === "") return EMPTY;
  if (from === "example") return EXAMPLE;
  if (from === "notebook") return notebook();
  return from === "tensorboard" && of !== "" ? tensorboard(of) : null;
}

interface FromJobProps {
  id: string;
  /** Number of GPUs that replaces the job's own. */
  gpus: number | null;
  /** The job was the search trial with the best configuration. */
  found: boolean;
  /** Include the change that is advised after the job's failure. */
  advised: boolean;
}

/** Form filled in from another job. */
function FromJob({ id, gpus, found: isTrial, advised }: FromJobProps) {
  const job = useQuery({ ...jobQuery(id), refetchInterval: false });
  return (
    <Loaded query={job} title="The job to submit again can't be read">
      {(found) => {
        const changes = advised ? found.failure?.clone?.changes : undefined;
        const before = fromBody({ ...specOf(found), ...changes });
        const initial = { ...(isTrial ? asFound(before) : before), ...(gpus && { required_gpus: gpus }) };
        return <SubmitForm initial={initial} from={id} />;
      }}
    </Loaded>
  );
}
