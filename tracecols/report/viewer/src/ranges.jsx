import { useEffect, useState } from "preact/hooks";
import { colour } from "./colours.js";
import { count, short, withUnit } from "./numbers.js";

/** What the ends of the colour scale stand for where locations are compared. */
export const RANGES = { max: "0 to largest", stretch: "smallest to largest", whole: "as in the trees" };

/** The colour range of some values, by the setting. */
export function inRange(model, values) {
  let low = Infinity;
  let high = -Infinity;
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  if (!(low <= high)) low = high = 0;
  const { range } = model.settings;
  const most = Math.max(Math.abs(low), Math.abs(high));
  const of = model.whole("system", 0, model.settings.mode === "plain" ? "absolute" : model.settings.mode);
  const whole = model.isComputed("system") ? most : of;
  const share =
    range === "stretch"
      ? (v) => (high > low ? Math.max(model.settings.threshold, (v - low) / (high - low)) : v ? 1 : 0)
      : range === "max"
        ? (v) => (most ? v / most : 0)
        : (v) => (whole ? v / whole : 0);
  const end = range === "max" ? most : whole;
  // changes go both ways, and so do their colours
  const [from, to] = range === "stretch" ? [low, high] : [model.cube.isDifference ? -end : 0, end];
  return { low, high, from, to, share };
}

/** The colour scale as a strip with its ends. */
export function Legend({ model, range, unit, note }) {
  return (
    <span class="tc-legend">
      <span>{short(range.from, unit)}</span>
      <Strip model={model} threshold={model.settings.range === "stretch" ? 0 : model.settings.threshold} />
      <span>{withUnit(range.to, unit)}</span>
      {note && <span class="tc-muted">{note}</span>}
    </span>
  );
}

export function Strip({ model, threshold = model.settings.threshold }) {
  const look = { ...model.look(), threshold };
  // changes go both ways
  const share = (k) => (look.changes ? k / 20 - 1 : Math.max(k / 40, 1e-9));
  const stops = Array.from({ length: 41 }, (_, k) => `${colour(share(k), look)} ${2.5 * k}%`);
  return <span class="tc-strip" style={{ background: `linear-gradient(to right, ${stops.join(", ")})` }} />;
}

/** Names of the first locations of a place. */
export function locationsText(model, rows) {
  const first = rows
    .slice(0, 2)
    .map((row) => model.locationLabel(row))
    .join("; ");
  return rows.length > 2 ? `${first} and ${count(rows.length - 2, "more", "more")}` : first;
}

/** The size of an element, as it changes. */
export function useSize(element) {
  const [size, setSize] = useState({ width: 300, height: 300 });
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) =>
      setSize({ width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) }),
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return size;
}
