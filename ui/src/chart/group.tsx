import { createContext, type ReactNode, useCallback, useContext, useId, useMemo, useState } from "react";

/** Part of an axis: from, to. */
export type Range = readonly [number, number];

interface Group {
  id: string;
  /** Zoomed range of each kind of x axis. */
  zooms: Readonly<Record<string, Range | null>>;
  zoom: (kind: string, range: Range | null) => void;
}

const GroupContext = createContext<Group | null>(null);

/** Group of a screen's charts. Charts with the same kind of x axis share the crosshair and the zoom. */
export function ChartGroup({ children }: { children: ReactNode }) {
  const id = useId();
  const [zooms, setZooms] = useState<Group["zooms"]>({});
  const zoom = useCallback<Group["zoom"]>(
    (kind, range) => setZooms((now) => ({ ...now, [kind]: range })),
    [],
  );
  const group = useMemo(() => ({ id, zooms, zoom }), [id, zooms, zoom]);
  return <GroupContext value={group}>{children}</GroupContext>;
}

/** Return a chart's crosshair key and zoom. Outside a group, the chart has its own. */
export function useChartGroup(kind: string): {
  key: string;
  zoom: Range | null;
  setZoom: (range: Range | null) => void;
} {
  const own = useId();
  const [alone, setAlone] = useState<Range | null>(null);
  const group = useContext(GroupContext);
  const shared = group?.zoom;
  const setZoom = useCallback(
    (range: Range | null) => (shared ? shared(kind, range) : setAlone(range)),
    [shared, kind],
  );
  return {
    key: `${group?.id ?? own} ${kind}`,
    zoom: group ? (group.zooms[kind] ?? null) : alone,
    setZoom,
  };
}
