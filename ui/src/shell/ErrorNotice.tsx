import { Alert, Button, Group, Text } from "@mantine/core";
import { Icon } from "./Icon";

interface Props {
  title: string;
  error: Error;
  retry?: () => void;
}

export function ErrorNotice({ title, error, retry }: Props) {
  return (
    <Alert color="red" variant="light" icon={<Icon name="alert" />} title={title} role="alert">
      <Group justify="space-between">
        <Text size="sm">{error.message}</Text>
        {retry && (
          <Button size="xs" variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </Group>
    </Alert>
  );
}
