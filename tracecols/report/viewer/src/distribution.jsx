import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { bin, deviation, max, mean, median, min, quantileSorted, sum } from "d3-array";
import { scaleLinear } from "d3-scale";
import { Choice } from "./icons.jsx";
import { count, percent, withUnit } from "./numbers.js";
import { paint } from "./paint.js";
import { locationsText, useSize } from "./ranges.jsx";
import { Save } from "./save.jsx";

const PER = { location: { title: "Locations" }, process: { title: "Processes", hint: "all threads of a process together" } };
const ORDER = { value: { title: "Sorted" }, place: { title: "In order" } };

/** What each location or process lost. */
function entries(model, per) {
  const values = model.byLocation;
  // a process may belong to several subdomains
  const { machine } = model.cube.systems;
  if (per === "location") return Array.from(values, (value, row) => ({ value, rows: [row], label: model.locationLabel(row) }));
  const found = new Map();
  for (let node = 0; node < machine.location.length; node++) {
    const row = machine.location[node];
    if (row < 0) continue;
    const above = machine.forest.parent[node];
    if (!found.has(above)) found.set(above, { value: 0, rows: [], label: above >= 0 ? model.systemLabel(above, machine) : "no process" });
    found.get(above).rows.push(row);
  }
  for (const entry of found.values()) entry.value = model.ofLocations.over(entry.rows);
  return [...found.values()];
}

/** Quartiles, whiskers at 1.5 times the box, and what describes imbalance. */
export function statistics(values) {
  const sorted = Float64Array.from(values).sort();
  const [q1, q2, q3] = [0.25, 0.5, 0.75].map((p) => quantileSorted(sorted, p) ?? 0);
  const reach = 1.5 * (q3 - q1);
  const average = mean(values) ?? 0;
  const most = max(values) ?? 0;
  return {
    q1,
    q2,
    q3,
    low: min(sorted.filter((v) => v >= q1 - reach)) ?? 0,
    high: max(sorted.filter((v) => v <= q3 + reach)) ?? 0,
    min: sorted[0] ?? 0,
    max: most,
    mean: average,
    median: median(values) ?? 0,
    sum: sum(values),
    deviation: deviation(values) ?? 0,
    imbalance: average ? most / average - 1 : 0,
  };
}

function Violin({ values, stats, width, unit }) {
  const height = 84;
  const middle = 32;
  const x = scaleLinear()
    .domain([Math.min(0, stats.min), Math.max(stats.max, 0) || 1])
    .range([18, width - 18]);
  const shape = useMemo(() => {
    if (values.length < 5 || stats.max === stats.min) return "";
    const [from, to] = [stats.min, stats.max];
    const steps = 80;
    const bins = bin()
      .domain([from, to])
      .thresholds(Array.from({ length: steps - 1 }, (_, k) => from + ((k + 1) * (to - from)) / steps))(values);
    const counts = bins.map((b) => b.length);
    // a Gaussian over the bins, as wide as Silverman's rule says but no less than one bin
    const spread = Math.max(
      1,
      (0.9 * Math.min(stats.deviation, (stats.q3 - stats.q1) / 1.34 || stats.deviation) * values.length ** -0.2 * steps) / (to - from),
    );
    const density = counts.map((_, i) => sum(counts, (n, j) => n * Math.exp(-0.5 * ((i - j) / spread) ** 2)));
    const most = max(density) || 1;
    const points = [[from, 0], ...density.map((d, i) => [from + ((i + 0.5) * (to - from)) / steps, d / most]), [to, 0]];
    const side = (sign, list) => list.map(([v, d]) => `${x(v).toFixed(1)},${(middle + sign * 26 * d).toFixed(1)}`);
    return `M${[...side(-1, points), ...side(1, points.reverse())].join("L")}Z`;
  }, [values, width]);
  const many = Math.max(2, Math.floor(width / 90));
  const label = x.tickFormat(many, unit === "sec" ? undefined : "~s");
  return (
    <svg
      class="tc-violin"
      width={width}
      height={height}
      role="img"
      aria-label={`From ${withUnit(stats.min, unit)} to ${withUnit(stats.max, unit)}, median ${withUnit(stats.median, unit)}`}
    >
      <path class="tc-violin-shape" d={shape} />
      {values.length < 40 && Array.from(values, (v) => <circle class="tc-dot" cx={x(v)} cy={middle} r="2.5" />)}
      <line class="tc-whisker" x1={x(stats.low)} x2={x(stats.high)} y1={middle} y2={middle} />
      <rect class="tc-box" x={x(stats.q1)} width={Math.max(1, x(stats.q3) - x(stats.q1))} y={middle - 8} height="16" rx="2" />
      <line class="tc-median" x1={x(stats.q2)} x2={x(stats.q2)} y1={middle - 8} y2={middle + 8} />
      <path class="tc-mean" d={`M${x(stats.mean)},${middle - 4.5}l4.5,4.5l-4.5,4.5l-4.5,-4.5z`} />
      {x.ticks(many).map((t) => (
        <g transform={`translate(${x(t)},${height - 20})`} class="tc-tick">
          <line y2="4" />
          <text y="15">{t ? label(t) : "0"}</text>
        </g>
      ))}
    </svg>
  );
}

/** How the severity of the selection is spread over locations. */
export function Distribution({ model, tools }) {
  const [per, setPer] = useState("location");
  const [order, setOrder] = useState("value");
  const [at, setAt] = useState(-1);
  const frame = useRef();
  const canvas = useRef();
  const { width, height } = useSize(frame);
  const unit = model.unit("system", 0);
  const all = useMemo(() => entries(model, per), [model.byLocation, per]);
  const bars = useMemo(() => (order === "value" ? all.slice().sort((a, b) => b.value - a.value) : all), [all, order]);
  // what cannot be computed is not a number
  const values = useMemo(() => Float64Array.from(all, (e) => e.value).filter((v) => !Number.isNaN(v)), [all]);
  const stats = useMemo(() => statistics(values), [values]);
  const tall = Math.max(60, height);
  const y = scaleLinear()
    .domain([Math.min(0, stats.min), Math.max(0, stats.max) || 1])
    .range([tall - 6, 8]);
  const inner = Math.max(10, width - 24);
  const step = inner / Math.max(1, bars.length);

  useLayoutEffect(() => {
    paint(canvas.current, width, tall, drawBars);
  });

  function drawBars(pen, of) {
    const zero = y(0);
    const wide = step > 4 ? step - 1 : Math.max(step, 0.5);
    bars.forEach((bar, k) => {
      pen.fillStyle = of(k === at ? "--tc-ink" : "--tc-bars");
      const top = y(bar.value);
      pen.fillRect(12 + k * step, Math.min(top, zero), Math.min(wide, 48), Math.max(Math.abs(top - zero), 0.5));
    });
    pen.strokeStyle = of("--tc-muted");
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(12, y(stats.mean));
    pen.lineTo(12 + inner, y(stats.mean));
    pen.stroke();
    pen.setLineDash([]);
    pen.strokeStyle = of("--tc-line");
    pen.beginPath();
    pen.moveTo(12, zero);
    pen.lineTo(12 + inner, zero);
    pen.stroke();
  }

  const select = () => at >= 0 && model.trees.system.reveal(model.place.nodesOf(bars[at].rows));
  const table = () => [[per, "value", "unit"], ...bars.map((bar) => [bar.label, bar.value, unit])];
  const facts = [
    ["mean", withUnit(stats.mean, unit)],
    ["median", withUnit(stats.median, unit)],
    ["smallest", withUnit(stats.min, unit)],
    ["largest", withUnit(stats.max, unit)],
    ["deviation", withUnit(stats.deviation, unit)],
    ["largest over mean", stats.mean ? `+${percent(stats.imbalance)} %`.replace("+\u2212", "\u2212") : "\u2013"],
  ];
  return (
    <div class="tc-view">
      <div class="tc-tools">
        {tools}
        <span class="tc-toolset">
          <Save model={model} pane="distribution" label="Distribution" table={table} />
        </span>
      </div>
      <div class="tc-controls">
        <Choice label="Bars" options={PER} value={per} onChange={(p) => (setPer(p), setAt(-1))} />
        <Choice label="Order" options={ORDER} value={order} onChange={(o) => (setOrder(o), setAt(-1))} />
      </div>
      <dl class="tc-facts">
        {facts.map(([name, value]) => (
          <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Violin values={values} stats={stats} width={Math.max(120, width)} unit={unit} />
      <div class="tc-frame" ref={frame}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={`${bars.length} bars, mean ${withUnit(stats.mean, unit)}. ${at >= 0 && bars[at] ? `${bars[at].label}: ${withUnit(bars[at].value, unit)}` : ""}`}
          style={{ width: `${width}px`, height: `${tall}px` }}
          onMouseMove={(event) => {
            const k = Math.floor((event.clientX - canvas.current.getBoundingClientRect().left - 12) / step);
            setAt(k >= 0 && k < bars.length ? k : -1);
          }}
          onMouseLeave={() => setAt(-1)}
          onClick={select}
          onKeyDown={(event) => {
            const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
            if (move) setAt(Math.max(0, Math.min(bars.length - 1, at + move)));
            else if (event.key === "Enter" || event.key === " ") select();
            else return;
            event.preventDefault();
            event.stopPropagation();
          }}
        />
      </div>
      <div class="tc-reading" role="status">
        {at >= 0 && bars[at] ? (
          <>
            <b>{withUnit(bars[at].value, unit)}</b>
            <span class="tc-muted">
              {" "}
              {bars[at].label} {per === "process" ? `\u00b7 ${locationsText(model, bars[at].rows)}` : ""}
            </span>
          </>
        ) : (
          <span class="tc-muted">{count(bars.length, per, per === "process" ? "processes" : "locations")}, dashed: mean</span>
        )}
      </div>
    </div>
  );
}
