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
  /** What is wrong where one of them can't be read. */
  title: string;
  children: (...data: T) => ReactNode;
}

interface ErrorProps {
  queries: readonly Query<unknown>[];
  title: string;
}

/** What is wrong with the first of some queries that failed; those that did are asked again by its button. For what has
 * a frame of its own before there are data: all else is `Loaded`. */
export function ReadError({ queries, title }: ErrorProps) {
  const failed = queries.filter(({ error }) => error !== null);
  const error = failed[0]?.error;
  if (!error) return null;
  const retry = () => {
    for (const each of failed) each.refetch();
  };
  return <ErrorNotice title={title} error={error} retry={retry} />;
}

/** What several queries found, once all are there: until then a placeholder, and what is wrong beside what was found
 * before. */
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
  /** Undefined where one failed. */
  children: (data: (T | undefined)[]) => ReactNode;
}

/** What those of several queries found that did not fail, once each has ended. */
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

/** Panels that each show a query of their own, once each of these was read or has failed: a panel is as high as what it
 * holds, and would push away what stands below. They are mounted from the first, and stay: a query that failed is asked
 * again by whatever is mounted anew. */
export function Together({ queries, children }: TogetherProps) {
  const pending = useQueries({ queries: [...queries] }).some((each) => each.isPending);
  const [shown, setShown] = useState(!pending);
  // A panel hears of its data in a task of its own, perhaps after this has seen them: it is let go first.
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
