import { type UseQueryOptions, useQueries } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ErrorNotice } from "./ErrorNotice";
import { Loading } from "./Loading";

interface Query<T> {
  data: T | undefined;
  error: Error | null;
  refetch: () => unknown;
}

interface AllProps<T extends unknown[]> {
  queries: readonly [...{ [K in keyof T]: Query<T[K]> }];
  /** What is wrong where one of them can't be read. */
  title: string;
  children: (...data: T) => ReactNode;
}

/** What several queries found, once all are there: until then a placeholder, and what is wrong beside what was found
 * before. */
export function LoadedAll<T extends unknown[]>({ queries, title, children }: AllProps<T>) {
  const all: readonly Query<unknown>[] = queries;
  const failed = all.filter(({ error }) => error !== null);
  const [error] = failed.map((each) => each.error);
  const missing = all.some(({ data }) => data === undefined);
  return (
    <>
      {error && (
        <ErrorNotice
          title={title}
          error={error}
          retry={() => {
            for (const each of failed) each.refetch();
          }}
        />
      )}
      {missing ? !error && <Loading /> : children(...(all.map(({ data }) => data) as T))}
    </>
  );
}

interface Props<T> {
  query: Query<T>;
  title: string;
  children: (data: T) => ReactNode;
}

/** The same of one query. */
export function Loaded<T>({ query, title, children }: Props<T>) {
  return (
    <LoadedAll<[T]> queries={[query]} title={title}>
      {children}
    </LoadedAll>
  );
}

interface TogetherProps {
  // biome-ignore lint/suspicious/noExplicitAny: of any data, none of which is looked at.
  queries: readonly UseQueryOptions<any, any, any, any>[];
  children: ReactNode;
}

/** Panels that each show a query of their own, once none of these is read for the first time any more: each is as high
 * as what it holds, and would push away what stands below. */
export function Together({ queries, children }: TogetherProps) {
  const pending = useQueries({ queries: [...queries] }).some((each) => each.isPending);
  return pending ? <Loading /> : children;
}
