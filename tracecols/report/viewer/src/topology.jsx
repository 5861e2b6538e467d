import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { colour } from "./colours.js";
import { count, percent, withUnit } from "./numbers.js";
import { Legend, RANGES, inRange, locationsText, useSize } from "./ranges.jsx";
import { Projection, layOut, sizeOf } from "./places.js";

const AXES = ["x", "y", "z"];

const firstAxes = (topology) => AXES.map((_, k) => (k < topology.dimensions.length ? k : -1));

/** The severity of the selection on a Cartesian grid (2004). */
export function Topology({ model, tools }) {
  const { topologies } = model.cube.header;
  const [number, setNumber] = useState(0);
  const topology = topologies[Math.min(number, topologies.length - 1)];
  const [axes, setAxes] = useState(() => firstAxes(topology));
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
    setAxes(firstAxes(topologies[n]));
    setSlice(topologies[n].dimensions.map(() => null));
    setCell(0);
    setCursor(null);
  };
  const values = model.byLocation;
  const { sizes, places } = useMemo(() => layOut(topology, axes, slice, values), [topology, axes, slice, values]);
  const deep = axes[2] >= 0;
  const line = axes[1] < 0 && !deep;
  const projection = useMemo(() => {
    const room = { width: Math.max(80, size.width - 40), height: Math.max(80, size.height - 40) };
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
    return make(Math.max(2, Math.min(40, room.width / unit.width, room.height / unit.height)));
  }, [sizes.join(), cell, distance, angle, deep, line, size.width, size.height]);

  const range = inRange(
    model,
    places.map((p) => p.value),
  );
  const byPlace = useMemo(() => new Map(places.map((p) => [p.at.join(), p])), [places]);
  const selected = useMemo(() => {
    const rows = new Set();
    const { system } = model.cube;
    for (const node of model.trees.system.selected)
      for (let i = node; i < system.end[node]; i++)
        if (model.cube.header.system.location[i] >= 0) rows.add(model.cube.header.system.location[i]);
    return rows;
  }, [[...model.trees.system.selected].join()]);

  const width = Math.max(projection.width + 40, size.width);
  const height = Math.max(projection.height + 40, size.height);
  const origin = [Math.max(20, (size.width - projection.width) / 2), Math.max(20, (size.height - projection.height) / 2)];

  useLayoutEffect(() => {
    const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(6e7 / (width * height)));
    const element = canvas.current;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    const pen = element.getContext("2d");
    pen.scale(ratio, ratio);
    pen.translate(...origin);
    const style = getComputedStyle(element);
    const [line_, ground, ink] = ["--tc-line", "--tc-panel", "--tc-ink"].map((name) => style.getPropertyValue(name));
    const trace = (points) => {
      pen.beginPath();
      points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
    };
    const look = model.look();
    let plane = -1;
    const gap = projection.cell > 6;
    const marked = [];
    for (const place of places) {
      for (; plane < place.at[2]; plane++) {
        if (line) continue;
        const z = plane + 1;
        const [nx, ny] = [sizes[0] - 1, sizes[1] - 1];
        const [a, b, c, d] = [
          projection.corners([0, 0, z])[0],
          projection.corners([nx, 0, z])[1],
          projection.corners([nx, ny, z])[2],
          projection.corners([0, ny, z])[3],
        ];
        trace([a, b, c, d]);
        pen.globalAlpha = 0.82;
        pen.fillStyle = ground;
        pen.fill();
        pen.globalAlpha = 1;
        pen.strokeStyle = line_;
        pen.lineWidth = 1;
        pen.stroke();
      }
      const corners = projection.corners(place.at);
      trace(corners);
      pen.fillStyle = colour(range.share(place.value), look);
      pen.fill();
      if (gap) {
        pen.strokeStyle = ground;
        pen.lineWidth = 1;
        pen.stroke();
      }
      if (place.rows.some((row) => selected.has(row)) && selected.size < model.cube.nLocations) marked.push(corners);
    }
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    for (const corners of marked) {
      trace(corners);
      pen.stroke();
    }
    if (cursor) {
      trace(projection.corners(cursor.at));
      pen.lineWidth = 1.5;
      pen.stroke();
    }
  });

  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const at = projection.find(event.clientX - box.left - origin[0], event.clientY - box.top - origin[1]);
    const place = at && byPlace.get(at.join());
    if (place?.at.join() !== cursor?.at.join()) setCursor(place ?? null);
  };
  const select = () => {
    if (!cursor) return;
    model.trees.system.reveal(cursor.rows.map((row) => model.cube.nodeOf[row]).filter((node) => node >= 0));
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
  const unit = model.unit("system", 0);
  const whole = model.whole("system", 0, model.settings.mode === "plain" ? "absolute" : model.settings.mode);
  const rest = topology.dimensions.map((_, d) => d).filter((d) => !axes.includes(d));
  const missing = topology.coordinates.filter((c) => !c).length;
  return (
    <div class="tc-view" onKeyDown={(event) => event.target instanceof HTMLCanvasElement || event.stopPropagation()}>
      <div class="tc-tools">{tools}</div>
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
                {topology.dimensions.map((dimension, d) => (
                  <option value={d}>{dimension.name || `dimension ${d}`}</option>
                ))}
              </select>
            </label>
          ))}
        {rest.map((d) => (
          <label>
            {topology.dimensions[d].name || `dimension ${d}`}
            <select
              aria-label={`Slice of ${topology.dimensions[d].name || `dimension ${d}`}`}
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
