import { Skeleton, Stack } from "@mantine/core";

export function Loading() {
  return (
    <Stack gap="md" role="status" aria-label="Loading">
      <Skeleton height={32} width={220} />
      <Skeleton height={56} />
      <Skeleton height={280} />
    </Stack>
  );
}
