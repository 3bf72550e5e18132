import { NativeSelect } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { jobsQuery } from "../../api/queries";
import { choiceOf, filterOf } from "../../jobs/filters";
import { distinct } from "./presets";

/** Choice of an example or own job to start from. */
export function Presets({ chosen }: { chosen: string }) {
  const navigate = useNavigate();
  const { data } = useInfiniteQuery(jobsQuery(filterOf(choiceOf(new URLSearchParams()), 0)));
  const jobs = distinct(data?.pages[0]?.items ?? []);
  const known =
    chosen === "" ||
    ["example", "notebook", "tensorboard"].includes(chosen) ||
    jobs.some((job) => job.id === chosen);
  return (
    <NativeSelect
      mb="md"
      maw={420}
      label="Start from"
      value={known ? chosen : ""}
      onChange={(event) => {
        const value = event.currentTarget.value;
        navigate(value === "" ? "/submit" : `/submit?from=${value}`, { replace: true });
      }}
      data={[
        { value: "", label: "an empty form" },
        { value: "example", label: "the example: digits, on CPU" },
        { value: "notebook", label: "a notebook: JupyterLab on a GPU" },
        ...(chosen === "tensorboard"
          ? [{ value: "tensorboard", label: "TensorBoard over a job's outputs" }]
          : []),
        ...(jobs.length > 0
          ? [
              {
                group: "earlier jobs",
                items: jobs.map((job) => ({
                  value: job.id,
                  label: `${job.name} (${job.command.slice(0, 48)})`,
                })),
              },
            ]
          : []),
      ]}
    />
  );
}
