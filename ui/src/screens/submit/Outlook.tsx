import { Button, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { expectJob, type JobBody } from "../../api/commands";
import { CANT_RUN, Ends, neverRuns, Starts } from "../../jobs/Expected";

/** Button that predicts when the job would start. */
export function Outlook({ body, onError }: { body: JobBody; onError: (error: Error) => void }) {
  const look = useMutation({ mutationFn: expectJob, onError });
  const text = JSON.stringify(body);
  const current = look.data && JSON.stringify(look.variables) === text ? look.data : null;
  return (
    <>
      <Button variant="default" loading={look.isPending} onClick={() => look.mutate(body)}>
        When would it start?
      </Button>
      {current && (
        <Text size="sm" data-testid="outlook" role="status">
          {current.start ? (
            <>
              Expected to <Starts eta={current} /> and to end <Ends eta={current} />.
            </>
          ) : current.awaits_image ? (
            <>It would start after its image is fetched, at an unknown time.</>
          ) : neverRuns(current) ? (
            CANT_RUN
          ) : (
            <>Its start can't be predicted yet.</>
          )}
        </Text>
      )}
    </>
  );
}
