import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { DEPTH, MARGIN, drawGrid } from "./grid.js";
import { count, percent, short, withUnit } from "./numbers.js";
import { paint } from "./paint.js";
import { Legend, RANGES, inRange, locationsText, useSize } from "./ranges.jsx";
import { Save } from "./save.jsx";
import { Projection, layOut, sizeOf } from "./places.js";

const AXES = ["x", "y", "z"];

const nameOf = (topology, d) => topology.dimensions[d].name || `dimension ${d}`;

/** The severity of the selection on a Cartesian grid (2004). */
export function Topology({ model, tools }) {
  const { topologies, topology: first } = model.cube.header;
  const [number, setNumber] = useState(first);
  const topology = topologies[Math.min(number, topologies.length - 1)];
  const [axes, setAxes] = useState(topology.axes);
  const [slice, setSlice] = useState(() => topology.dimensions.map(() => null));
  const [cell, setCell] = useState(0);
  const [distance, setDistance] = useState(1.1);
  const [angle, setAngle] = useState(28);
  const [cursor, setCursor] = useState(null);
  const frame = useRef();
  const canvas = useRef();
  const size = useSize(frame);

  const choose = (n) => {
    setNumber(n);
    setAxes(topologies[n].axes);
    setSlice(topologies[n].dimensions.map(() => null));
    setCell(0);
    setCursor(null);
  };
  const values = model.byLocation;
  const { sizes, places } = useMemo(() => layOut(topology, axes, slice, (rows) => model.ofLocations.over(rows)), [topology, axes, slice, values]);
  const deep = axes[2] >= 0;
  const sides = MARGIN.left + MARGIN.right + (deep ? DEPTH : 0);
  const line = axes[1] < 0 && !deep;
  const projection = useMemo(() => {
    const room = {
      width: Math.max(80, size.width - sides),
      height: Math.max(60, size.height - MARGIN.top - MARGIN.bottom),
    };
    const make = (c) =>
      new Projection(sizes, {
        cell: c,
        distance,
        angle: deep ? angle : 90,
        columns: line ? Math.max(1, Math.min(sizes[0], Math.floor(room.width / c))) : undefined,
      });
    if (cell) return make(cell);
    if (line) {
      let fit = 40;
      while (fit > 3 && make(fit).height > room.height) fit--;
      return make(fit);
    }
    const unit = make(1);
    return make(Math.max(2, Math.min(64, room.width / unit.width, room.height / unit.height)));
  }, [sizes.join(), cell, distance, angle, deep, line, size.width, size.height]);

  const range = inRange(
    model,
    places.map((p) => p.value),
  );
  const byPlace = useMemo(() => new Map(places.map((p) => [p.at.join(), p])), [places]);
  const selected = useMemo(() => {
    const rows = new Set();
    const { forest, location } = model.place;
    for (const node of model.trees.system.selected)
      for (let i = node; i < forest.end[node]; i++) if (location[i] >= 0) rows.add(location[i]);
    return rows;
  }, [model.place, [...model.trees.system.selected].join()]);

  const width = Math.max(projection.width + sides, size.width);
  const height = Math.max(projection.height + MARGIN.top + MARGIN.bottom, size.height);
  const origin = [
    Math.max(MARGIN.left, (width - projection.width - (deep ? DEPTH : 0)) / 2),
    Math.max(MARGIN.top, (height - projection.height) / 2),
  ];

  const unit = model.unit("system", 0);
  const whole = model.whole("system", 0, model.settings.mode === "plain" ? "absolute" : model.settings.mode);
  useLayoutEffect(() => {
    const isSelected = (place) => place.rows.some((row) => selected.has(row));
    const grid = {
      projection,
      sizes,
      names: axes.map((d) => (d < 0 ? "" : nameOf(topology, d))),
      places,
      origin,
      isLine: line,
      share: range.share,
      text: (value) => model.number(value, model.isPlain("system") || !whole ? short(value, unit) : percent(value / whole)),
      look: model.look(),
      marked: selected.size < model.cube.nLocations ? places.filter(isSelected) : [],
      cursor,
    };
    paint(canvas.current, width, height, (pen, of) => drawGrid(pen, of, grid));
  });

  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const at = projection.find(event.clientX - box.left - origin[0], event.clientY - box.top - origin[1]);
    const place = at && byPlace.get(at.join());
    if (place?.at.join() !== cursor?.at.join()) setCursor(place ?? null);
  };
  const select = () => {
    if (!cursor) return;
    model.trees.system.reveal(model.place.nodesOf(cursor.rows));
  };
  const keys = (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, -1], ArrowDown: [1, 1], PageUp: [2, -1], PageDown: [2, 1] }[
      event.key
    ];
    if (event.key === "Enter" || event.key === " ") select();
    else if (event.key === "Escape") setCursor(null);
    else if (step && places.length) {
      const at = [...(cursor ?? places[0]).at];
      if (cursor)
        do at[step[0]] += step[1];
        while (at[step[0]] >= 0 && at[step[0]] < sizes[step[0]] && !byPlace.has(at.join()));
      const place = byPlace.get(at.join());
      if (place) setCursor(place);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const shown = cursor && byPlace.get(cursor.at.join());
  const table = () => [
    [...topology.dimensions.map((_, d) => nameOf(topology, d)), "rank", "thread", "value", "unit"],
    ...topology.coordinates.flatMap((at, row) =>
      at ? [[...at, model.cube.header.locations.rank[row], model.cube.header.locations.thread[row], values[row], unit]] : [],
    ),
  ];
  const rest = topology.dimensions.map((_, d) => d).filter((d) => !axes.includes(d) && sizeOf(topology, d) > 1);
  const missing = topology.coordinates.filter((c) => !c).length;
  return (
    <div class="tc-view" onKeyDown={(event) => event.target instanceof HTMLCanvasElement || event.stopPropagation()}>
      <div class="tc-tools">
        {tools}
        <span class="tc-toolset">
          <Save model={model} pane="topology" label="Topology" table={table} />
        </span>
      </div>
      <div class="tc-controls">
        <select aria-label="Topology" value={number} onChange={(event) => choose(Number(event.currentTarget.value))}>
          {topologies.map((t, k) => (
            <option value={k}>
              {t.name || `topology ${k}`} ({t.dimensions.map((_, d) => sizeOf(t, d)).join(" \u00d7 ")})
            </option>
          ))}
        </select>
        {topology.dimensions.length > 1 &&
          AXES.slice(0, Math.max(2, Math.min(3, topology.dimensions.length))).map((axis, k) => (
            <label>
              {axis}
              <select
                aria-label={`Axis ${axis}`}
                value={axes[k]}
                onChange={(event) => {
                  const d = Number(event.currentTarget.value);
                  setAxes(axes.map((old, j) => (j === k ? d : old === d && d >= 0 ? axes[k] : old)));
                  setCursor(null);
                }}
              >
                {k > 0 && <option value={-1}>{"\u2013"}</option>}
                {topology.dimensions.map((_, d) => (
                  <option value={d}>{nameOf(topology, d)}</option>
                ))}
              </select>
            </label>
          ))}
        {rest.map((d) => (
          <label>
            {nameOf(topology, d)}
            <select
              aria-label={`Slice of ${nameOf(topology, d)}`}
              value={slice[d] ?? -1}
              onChange={(event) =>
                setSlice(
                  slice.map((old, j) =>
                    j === d ? (Number(event.currentTarget.value) < 0 ? null : Number(event.currentTarget.value)) : old,
                  ),
                )
              }
            >
              <option value={-1}>sum</option>
              {Array.from({ length: Math.min(1000, sizeOf(topology, d)) }, (_, k) => (
                <option value={k}>{k}</option>
              ))}
            </select>
          </label>
        ))}
        <label title="Size of a cell">
          cell
          <input
            type="range"
            aria-label="Cell size"
            min="2"
            max="60"
            value={Math.round(projection.cell)}
            onInput={(event) => setCell(Number(event.currentTarget.value))}
            onDblClick={() => setCell(0)}
          />
        </label>
        {deep && (
          <>
            <label title="Distance of the planes">
              distance
              <input
                type="range"
                aria-label="Plane distance"
                min="0.1"
                max="2"
                step="0.05"
                value={distance}
                onInput={(event) => setDistance(Number(event.currentTarget.value))}
              />
            </label>
            <label title="Angle of view">
              angle
              <input
                type="range"
                aria-label="Angle"
                min="5"
                max="90"
                value={angle}
                onInput={(event) => setAngle(Number(event.currentTarget.value))}
              />
            </label>
          </>
        )}
        <label>
          colours
          <select
            aria-label="Colour range"
            value={model.settings.range}
            onChange={(event) => model.set({ range: event.currentTarget.value })}
          >
            {Object.entries(RANGES).map(([key, title]) => (
              <option value={key}>{title}</option>
            ))}
          </select>
        </label>
      </div>
      <div class="tc-frame" ref={frame}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={`${topology.name}: ${places.length} places, from ${withUnit(range.low, unit)} to ${withUnit(range.high, unit)}. ${shown ? placeText(topology, axes, shown) : ""}`}
          style={{ width: `${width}px`, height: `${height}px` }}
          onMouseMove={point}
          onMouseLeave={() => setCursor(null)}
          onClick={select}
          onKeyDown={keys}
        />
      </div>
      <div class="tc-reading" role="status">
        {shown ? (
          <>
            <b>{withUnit(shown.value, unit)}</b>
            {whole ? <span> {percent(shown.value / whole)} %</span> : null}
            <span class="tc-muted">
              {" "}
              {placeText(topology, axes, shown)} {"\u00b7"} {locationsText(model, shown.rows)}
            </span>
          </>
        ) : (
          <Legend model={model} range={range} unit={unit} note={missing ? `${count(missing, "location")} without a place here` : ""} />
        )}
      </div>
    </div>
  );
}

const placeText = (topology, axes, place) =>
  axes
    .map((d, k) => (d < 0 ? "" : `${topology.dimensions[d].name || AXES[k]} ${place.at[k]}`))
    .filter(Boolean)
    .join(", ");
