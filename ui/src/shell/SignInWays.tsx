import { Button, Divider } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { signInQuery } from "../api/queries";

/** Links that sign in by a provider or a proxy, if the service has one. They lead back to the current page. */
export function SignInWays() {
  const { data } = useQuery({ ...signInQuery, retry: false });
  const ways = [data?.provider, data?.proxy].filter((way) => way != null);
  if (ways.length === 0) return null;
  const to = encodeURIComponent(window.location.pathname + window.location.search);
  return (
    <>
      {ways.map(({ name, path }) => (
        <Button key={path} component="a" href={`${path}?to=${to}`}>
          Sign in with {name}
        </Button>
      ))}
      <Divider label="or with a token" />
    </>
  );
}
