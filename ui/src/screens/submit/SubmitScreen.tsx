import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import { jobQuery } from "../../api/queries";
import { EMPTY, fromBody, specOf, type Values } from "../../jobs/values";
import { Loaded } from "../../shell/Loaded";
import { Screen } from "../../shell/Screen";
import { Presets } from "./Presets";
import { EXAMPLE, notebook, tensorboard } from "./presets";
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
        <FromJob key={from} id={from} gpus={Number(address.get("gpus")) || null} />
      )}
    </Screen>
  );
}

/** What the form begins with; null: with a job of before. */
function presetOf(from: string, of: string): Values | null {
  if (from === "") return EMPTY;
  if (from === "example") return EXAMPLE;
  if (from === "notebook") return notebook();
  return from === "tensorboard" && of !== "" ? tensorboard(of) : null;
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
