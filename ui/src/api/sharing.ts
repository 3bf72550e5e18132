import { type InfiniteData, replaceEqualDeep } from "@tanstack/react-query";

interface Item {
  id: string | number;
}

/**
 * Return newly read pages of a list, reusing unchanged objects.
 *
 * An object is reused wherever it now stands: TanStack Query compares lists by position. One new job at the top would
 * create a new object for every other job. The library keeps several replies.
 */
export function sharedById<T extends Item>(before: unknown, after: unknown): unknown {
  if (!isList<T>(before) || !isList<T>(after)) return after;
  const known = new Map(before.pages.flatMap((page) => page.items.map((item) => [item.id, item] as const)));
  const pages = after.pages.map((page, place) => {
    const items = page.items.map((item) => replaceEqualDeep(known.get(item.id), item));
    const shown = before.pages[place];
    const rest = { ...page, items: [] };
    const same =
      shown !== undefined &&
      shown.items.length === items.length &&
      items.every((item, index) => item === shown.items[index]) &&
      JSON.stringify(rest) === JSON.stringify({ ...shown, items: [] });
    return same ? shown : { ...page, items };
  });
  const same =
    pages.length === before.pages.length && pages.every((page, index) => page === before.pages[index]);
  return same && JSON.stringify(before.pageParams) === JSON.stringify(after.pageParams)
    ? before
    : { ...after, pages };
}

function isList<T extends Item>(data: unknown): data is InfiniteData<{ items: T[] }> {
  return data !== undefined && data !== null;
}
