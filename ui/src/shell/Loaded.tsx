import type { ReactNode } from "react";
import { ErrorNotice } from "./ErrorNotice";
import { Loading } from "./Loading";

interface Props<T> {
  query: { data: T | undefined; error: Error | null; refetch: () => unknown };
  /** What is wrong where it can't be read. */
  title: string;
  children: (data: T) => ReactNode;
}

/** What a query found: until then a placeholder, and what is wrong with it beside what was found before. */
export function Loaded<T>({ query: { data, error, refetch }, title, children }: Props<T>) {
  return (
    <>
      {error && <ErrorNotice title={title} error={error} retry={refetch} />}
      {data === undefined && !error && <Loading />}
      {data !== undefined && children(data)}
    </>
  );
}
