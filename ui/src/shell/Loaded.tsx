import { type UseQueryOptions, useQueries } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { ErrorNotice } from "./ErrorNotice";
import classes from "./Loaded.module.css";
import { Loading } from "./Loading";

interface Query<T> {
  data: T | undefined;
  error: Error | null;
  refetch: () => unknown;
}

interface AllProps<T extends unknown[]> {
  queries: readonly [...{ [K in keyof T]: Query<T[K]> }];
  /** Title of the error if a query fails. */
  title: string;
  children: (...data: T) => ReactNode;
}

interface ErrorProps {
  queries: readonly Query<unknown>[];
  title: string;
}

/** Error of the first failed query. Its button retries all failed queries. It is for content with a frame of its own
 * before data arrive. Other content uses `Loaded`. */
export function ReadError({ queries, title }: ErrorProps) {
  const failed = queries.filter(({ error }) => error !== null);
  const error = failed[0]?.error;
  if (!error) return null;
  const retry = () => {
    for (const each of failed) each.refetch();
  };
  return <ErrorNotice title={title} error={error} retry={retry} />;
}

/** Data of several queries, once all have arrived. A placeholder is shown until then, and an error is shown beside
 * older data. */
export function LoadedAll<T extends unknown[]>({ queries, title, children }: AllProps<T>) {
  const all: readonly Query<unknown>[] = queries;
  const missing = all.some(({ data }) => data === undefined);
  const failed = all.some(({ error }) => error !== null);
  return (
    <>
      <ReadError queries={all} title={title} />
      {missing ? !failed && <Loading /> : children(...(all.map(({ data }) => data) as T))}
    </>
  );
}

interface SomeProps<T> {
  queries: readonly Query<T>[];
  title: string;
  /** undefined for failed queries. */
  children: (data: (T | undefined)[]) => ReactNode;
}

/** Data of the queries that succeeded, once all have finished. */
export function LoadedSome<T>({ queries, title, children }: SomeProps<T>) {
  const pending = queries.some(({ data, error }) => data === undefined && error === null);
  const found = queries.map(({ data }) => data);
  return (
    <>
      <ReadError queries={queries} title={title} />
      {pending ? <Loading /> : found.some((each) => each !== undefined) && children(found)}
    </>
  );
}

interface Props<T> {
  query: Query<T>;
  title: string;
  children: (data: T) => ReactNode;
}

/** Data of one query, as in `LoadedAll`. */
export function Loaded<T>({ query, title, children }: Props<T>) {
  return (
    <LoadedAll<[T]> queries={[query]} title={title}>
      {children}
    </LoadedAll>
  );
}

interface TogetherProps {
  // biome-ignore lint/suspicious/noExplicitAny: the data can be of any type and are not read.
  queries: readonly UseQueryOptions<any, any, any, any>[];
  children: ReactNode;
}

/**
 * Panels with a query each, shown once every query has finished.
 *
 * A query finishes by success or failure. A panel is as high as its content, so a late one would move the content below
 * it. The panels are mounted from the beginning and stay mounted, because a newly mounted panel fetches a failed query
 * again.
 */
export function Together({ queries, children }: TogetherProps) {
  const pending = useQueries({ queries: [...queries] }).some((each) => each.isPending);
  const [shown, setShown] = useState(!pending);
  // Panels receive their data in a task of their own, perhaps after this component. They go first.
  useEffect(() => {
    if (pending) return;
    const timer = setTimeout(() => setShown(true));
    return () => clearTimeout(timer);
  }, [pending]);
  return (
    <>
      {!shown && <Loading />}
      <div hidden={!shown} className={classes.together}>
        {children}
      </div>
    </>
  );
}
