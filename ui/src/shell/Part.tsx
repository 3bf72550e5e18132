import { Alert, Button, Group, Text } from "@mantine/core";
import { Component, type ReactNode, Suspense } from "react";
import { MissingCode, reloadOnceFor } from "./code";
import { Icon } from "./Icon";

interface Props {
  /** Noun for messages: "screen", "chart". */
  what: string;
  /** Shown until the code has loaded. */
  fallback: ReactNode;
  /** Reload the page if code is missing. Set it only if nothing else would be lost. */
  reloads?: boolean;
  children: ReactNode;
}

interface State {
  error: Error | null;
  reloading: boolean;
}

/** Part of the page that may fail alone. Its code may be unavailable, or it may fail to draw its data. */
export class Part extends Component<Props, State> {
  override state: State = { error: null, reloading: false };

  static getDerivedStateFromError(error: Error): Partial<State> {
    return { error };
  }

  override componentDidCatch(error: Error) {
    if (!(error instanceof MissingCode)) return;
    error.code.forget();
    if (this.props.reloads) this.setState({ reloading: reloadOnceFor(error.code.name) });
  }

  override render() {
    const { what, fallback, children } = this.props;
    const { error, reloading } = this.state;
    if (reloading) return fallback;
    if (error) return <Failed what={what} error={error} onRetry={() => this.setState({ error: null })} />;
    return <Suspense fallback={fallback}>{children}</Suspense>;
  }
}

function Failed({ what, error, onRetry }: { what: string; error: Error; onRetry: () => void }) {
  const missing = error instanceof MissingCode;
  return (
    <Alert
      color="red"
      variant="light"
      icon={<Icon name="alert" />}
      title={missing ? `This ${what}'s code could not be loaded` : `This ${what} failed`}
      role="alert"
    >
      <Text size="sm">
        {missing
          ? "The service does not have this part of the page. It may have been upgraded since you opened the page: reload it."
          : `The service's response could not be shown (${error.name}: ${error.message}). This is a fault of the page; the rest of it still works.`}
      </Text>
      <Group gap="sm" mt="sm">
        <Button size="xs" onClick={() => window.location.reload()}>
          Reload
        </Button>
        <Button size="xs" variant="default" onClick={onRetry}>
          Try again
        </Button>
      </Group>
    </Alert>
  );
}
