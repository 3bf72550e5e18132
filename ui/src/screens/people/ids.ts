import type { HostIds } from "../../api/types";

export function shownIds({ uid, gid, gids }: HostIds): string {
  return uid == null ? "" : `${uid}:${[gid, ...(gids ?? [])].join(",")}`;
}

/** Parse ids as typed; null: invalid. */
export function idsOf(text: string): HostIds | null {
  const written = text.replaceAll(" ", "");
  if (written === "") return { uid: null, gid: null, gids: [] };
  const [, uid, groups] = /^(\d+):(\d+(?:,\d+)*)$/.exec(written) ?? [];
  if (groups === undefined) return null;
  const [gid, ...gids] = groups.split(",").map(Number);
  return { uid: Number(uid), gid, gids };
}
