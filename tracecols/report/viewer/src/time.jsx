import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { bisectRight, ticks } from "d3-array";
import { scaleLinear } from "d3-scale";
import { colour } from "./colours.js";
import { copyText } from "./copy.js";
import { Tool } from "./icons.jsx";
import { full, percent, periodText, short, withUnit } from "./numbers.js";
import { paint } from "./paint.js";
import { ProfileLegend, drawProfile } from "./profile.jsx";
import { Legend, useSize } from "./ranges.jsx";
import { Save } from "./save.jsx";
import { Similar, groupColour } from "./similar.jsx";
import { periodTable } from "./tables.js";

const LEFT = 104;
const RIGHT = 14;
const TOP = 10;
const STACK = 40;
const PROFILE = 30;
const GAP = 5;
const GROUPS = 5;
const AXIS = 18;
const SHADES = 256;
/** The row of a cursor in what all of the time was spent on. */
const STACKED = -2;

/** When periods begin and end, in seconds since the first event. */
function whenText(periods, from, to = from) {
  const [begin, end] = [periods.begin[from] / periods.resolution, periods.end[to] / periods.resolution];
  const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(Math.max(end - begin, 1e-9)))));
  return `${begin.toFixed(digits)}\u2013${end.toFixed(digits)} s`;
}

/** The period with the largest sum, without its sign; -1 if there is nothing. */
export function worst(profile) {
  let found = -1;
  for (let k = 0; k < profile.length; k++) if (profile[k] && (found < 0 || Math.abs(profile[k]) > Math.abs(profile[found]))) found = k;
  return found;
}

/** Of many values that share a pixel the largest, without its sign, is seen. */
function pool(map, rows, columns, height, width) {
  const seen = new Float64Array(height * width);
  rows.forEach((row, y) => {
    const line = Math.floor((y * height) / rows.length) * width;
    for (let x = 0; x < columns; x++) {
      const v = map[row * columns + x];
      const at = line + Math.floor((x * width) / columns);
      if (Math.abs(v) > Math.abs(seen[at])) seen[at] = v;
    }
  });
  return seen;
}

/** The colours of shares from -1 to 1 as bytes. */
function shades(look) {
  const strip = document.createElement("canvas");
  strip.width = 2 * SHADES + 1;
  strip.height = 1;
  const pen = strip.getContext("2d", { willReadFrequently: true });
  for (let k = -SHADES; k <= SHADES; k++) {
    pen.fillStyle = colour(k / SHADES, look);
    pen.fillRect(k + SHADES, 0, 1, 1);
  }
  return pen.getImageData(0, 0, 2 * SHADES + 1, 1).data;
}

/** Pooled values as a picture; where there is nothing it is transparent. */
function picture(seen, height, width, most, look) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height);
  const table = shades(look);
  for (let i = 0; i < seen.length; i++) {
    if (!seen[i] || !most) continue;
    // what is not zero is seen
    const at = 4 * (SHADES + Math.sign(seen[i]) * Math.max(1, Math.round((SHADES * Math.abs(seen[i])) / most)));
    for (let k = 0; k < 4; k++) image.data[4 * i + k] = table[at + k];
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** The selected property if rows of the timeline can show it: one part of the time, which is not all of it. */
function shownOnTimeline(properties, selection) {
  const id = selection.length === 1 ? properties.id[selection[0][0]] : "";
  let root = selection[0]?.[0] ?? -1;
  while (properties.parent[root] >= 0) root = properties.parent[root];
  return properties.id[root] === "time" && id !== "time" && id !== "execution" ? id : "";
}

/**
 * The address of the timeline that this report was opened from, with what is selected: what the timeline showed, the property if
 * rows can show it, the region of the call path, and the location.
 */
export function timelineAddress(model) {
  const { header } = model.cube;
  const said = new URLSearchParams(header.opened.timeline);
  const put = (name, value) => (value === "" ? said.delete(name) : said.set(name, value));
  said.delete("wait");
  put("severity", shownOnTimeline(header.properties, model.selection()));
  const calls = model.callTree.selection();
  const { flat } = model.cube;
  let region = -1;
  if (calls.length === 1) {
    const [[node]] = calls;
    const call = model.settings.calls === "flat" ? flat.call[node] : model.view.callOf(node);
    region = call < 0 ? flat.region[node] : header.call_paths.region[call];
  }
  put("region", region >= 0 ? header.regions.name[region] : "");
  const nodes = model.trees.system.selection();
  const at = nodes.length === 1 ? model.place.location[nodes[0][0]] : -1;
  put("at", at >= 0 ? String(at) : "");
  return `./#${said}`;
}

/** The commands that show some periods as a timeline: of the store that the report was made beside, or of one of its name. */
export function timelineCommands({ name, store }, periods, from, to, property) {
  const seconds = (ticks, round) => String(round(((ticks + periods.offset) / periods.resolution) * 1e9) / 1e9);
  const [begin, end] = [seconds(periods.begin[from], Math.floor), seconds(periods.end[to], Math.ceil)];
  const quoted = (text) => (/^[\w./+=-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`);
  const file = (ending) => quoted((name || "NAME") + ending);
  const [trace, range] = [store ? quoted(store) : file(".trace"), `--from ${begin} --to ${end}`];
  return {
    view: `tracecols view ${trace} ${range}${property ? ` -p ${quoted(property)}` : ""}`,
    perfetto: `tracecols export ${trace} ${file(`.${periods.kind}${from === to ? from : `${from}-${to}`}.pftrace`)} ${range}`,
  };
}

/** When it happened: the selected severity by location and phase or bin, and above its sum over locations. */
export function Time({ model }) {
  const { cube, byPeriod } = model;
  const { periods } = cube;
  const n = periods.begin.length;
  const frame = useRef();
  const canvas = useRef();
  const size = useSize(frame);
  const [cursor, setCursor] = useState(null);
  // the first and the last column while they are being dragged over
  const [drag, setDrag] = useState(null);
  const rows = useMemo(() => cube.systems.machine.location.filter((row) => row >= 0), [cube]);
  const rowOf = useMemo(() => new Map(rows.map((location, k) => [location, k])), [rows]);
  const unit = model.unit("system", 0);
  const group = byPeriod?.group ?? 1;
  const columns = byPeriod?.columns ?? n;
  const highest = byPeriod ? worst(byPeriod.profile) : -1;
  // threads that are forked in a phase have none of their own
  const most = useMemo(() => periods.n_locations.reduce((a, b) => Math.max(a, b), 0), [periods]);
  const range = useMemo(() => {
    let [low, high] = [0, 0];
    for (const v of byPeriod?.map ?? []) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
    return { low, high, most: Math.max(-low, high), from: low < 0 ? -Math.max(-low, high) : 0, to: Math.max(-low, high) };
  }, [byPeriod]);

  // the one location in the one period with most of it
  const peak = useMemo(() => {
    const at = byPeriod ? worst(byPeriod.map) : -1;
    return at < 0 ? null : { column: at % columns, row: rows.indexOf(Math.floor(at / columns)), value: byPeriod.map[at] };
  }, [byPeriod, columns, rows]);
  const width = Math.max(40, size.width - LEFT - RIGHT);
  const { similar } = cube.header;
  const run = cube.header.profile && (model.run ?? cube.header.profile);
  const ofRun = model.run?.isWhole === false ? "time of the selected call paths" : "all of the time";
  const path = model.path && model.path.group === group ? model.path : null;
  // what the time was spent on, the sum of the selection, groups of similar phases, the map
  const sumTop = TOP + (run ? STACK + GAP : 0);
  const groupTop = sumTop + PROFILE + 3;
  const top = sumTop + PROFILE + GAP + (similar ? GROUPS : 0);
  const height = Math.max(8, size.height - top - AXIS);
  // the last of several columns may hold fewer periods
  const across = (k) => LEFT + (k / (columns * group)) * width;
  const look = model.look();
  const lookKey = JSON.stringify(look);
  const map = useMemo(() => {
    if (!byPeriod || !columns || !rows.length) return null;
    const [h, w] = [Math.min(rows.length, Math.max(1, Math.floor(height))), Math.min(columns, Math.max(1, Math.floor(width)))];
    return picture(pool(byPeriod.map, rows, columns, h, w), h, w, range.most, look);
  }, [byPeriod, columns, rows, Math.floor(height), Math.floor(width), lookKey]);

  /** The periods of some columns, as a scope. */
  const periodsOf = (a, b) => [Math.min(a, b) * group, Math.min(n, (Math.max(a, b) + 1) * group) - 1];
  const brush = drag ? periodsOf(...drag) : model.scope;
  /** Let the trees tell of some columns only; of those that they tell of already, of everything again. */
  const choose = (a, b) => {
    const scope = periodsOf(a, b);
    model.setScope(model.scope?.join() === scope.join() ? null : scope);
  };

  useLayoutEffect(() => paint(canvas.current, size.width, size.height, drawTime));

  function drawTime(pen, of) {
    pen.textBaseline = "middle";
    pen.fillStyle = of("--tc-track");
    pen.fillRect(LEFT, top, width, height);
    if (!byPeriod) return;
    if (run) {
      drawProfile(pen, run, { left: LEFT, top: TOP, width, height: STACK });
      pen.fillStyle = of("--tc-muted");
      pen.textAlign = "right";
      pen.fillText(ofRun === "all of the time" ? ofRun : "selected calls", LEFT - 6, TOP + STACK / 2, LEFT - 10);
    }
    similar?.group.forEach((group, k) => {
      pen.fillStyle = groupColour(group);
      pen.fillRect(across(k), groupTop, Math.max(0.5, across(k + 1) - across(k) - (width / n > 4 ? 1 : 0)), GROUPS - 1);
    });
    pen.imageSmoothingEnabled = false;
    if (map) pen.drawImage(map, LEFT, top, width, height);
    if (path) drawPath(pen, of);

    // the sum over locations; of several periods in a pixel the largest is seen
    const { profile } = byPeriod;
    let [low, high] = [0, 0];
    for (const v of profile) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
    const y = scaleLinear()
      .domain([low, high > low ? high : low + 1])
      .range([sumTop + PROFILE, sumTop]);
    pen.fillStyle = of("--tc-bars");
    const step = Math.max(1, Math.floor(n / Math.max(1, width)));
    for (let k = 0; k < n; k += step) {
      let v = 0;
      for (let j = k; j < Math.min(n, k + step); j++) if (Math.abs(profile[j]) > Math.abs(v)) v = profile[j];
      if (!v) continue;
      const left = across(k);
      const room = across(Math.min(n, k + step)) - left;
      pen.fillRect(left, Math.min(y(0), y(v)), Math.max(1, room > 4 ? room - 1 : room), Math.max(1, Math.abs(y(v) - y(0))));
    }
    if (highest >= 0) {
      const left = across(highest);
      const room = Math.max(1.5, across(highest + 1) - left - (across(1) - across(0) > 4 ? 1 : 0));
      const v = profile[highest];
      pen.fillStyle = of("--tc-low");
      pen.fillRect(left, Math.min(y(0), y(v)), room, Math.max(1, Math.abs(y(v) - y(0))));
      const middle = left + room / 2;
      pen.beginPath();
      pen.moveTo(middle - 4, 1);
      pen.lineTo(middle + 4, 1);
      pen.lineTo(middle, 7);
      pen.closePath();
      pen.fill();
    }
    pen.fillStyle = of("--tc-muted");
    pen.fillRect(LEFT, y(0), width, 0.5);
    pen.textAlign = "right";
    pen.fillText(withUnit(Math.abs(low) > high ? low : high, unit), LEFT - 6, sumTop + 5);
    pen.fillText(model.isComputed("system") ? "all" : "sum", LEFT - 6, sumTop + PROFILE - 5);
    const every = Math.max(1, Math.ceil(12 / (height / Math.max(1, rows.length))));
    for (let k = 0; k < rows.length; k += every)
      pen.fillText(model.locationLabel(rows[k]), LEFT - 6, top + ((k + 0.5) * height) / rows.length, LEFT - 10);

    if (peak) {
      const [a, b] = [across(peak.column * group), across(Math.min(n, (peak.column + 1) * group))];
      const row = height / Math.max(1, rows.length);
      for (const [name, more] of [
        ["--tc-panel", 1.5],
        ["--tc-ink", 0],
      ]) {
        pen.strokeStyle = of(name);
        pen.lineWidth = 1.5;
        pen.strokeRect(a - more, top + peak.row * row - more, Math.max(2, b - a) + 2 * more, Math.max(2, row) + 2 * more);
      }
    }

    // numbers of phases stand at their middle, seconds between bins
    pen.textAlign = "center";
    const under = top + height;
    const mark = (x, text) => {
      pen.fillRect(x - 0.25, under, 0.5, 4);
      pen.fillText(text, Math.max(LEFT + 8, Math.min(LEFT + width - 8, x)), under + AXIS - 7);
    };
    if (periods.kind === "bin" && n) {
      const seconds = (t) => t / periods.resolution;
      const [from, to] = [seconds(periods.begin[0]), seconds(periods.end[n - 1])];
      const many = Math.max(2, Math.floor(width / 90));
      const text = scaleLinear().domain([from, to]).tickFormat(many);
      for (const t of ticks(from, to, many)) {
        const k = Math.max(0, Math.min(n - 1, bisectRight(periods.begin, t * periods.resolution) - 1));
        const [begin, end] = [seconds(periods.begin[k]), seconds(periods.end[k])];
        mark(across(k + (end > begin ? Math.min(1, (t - begin) / (end - begin)) : 0)), `${text(t)} s`);
      }
    } else {
      const numbers = ticks(0, Math.max(0, n - 1), Math.max(2, Math.floor(width / 60))).filter(Number.isInteger);
      for (const k of numbers) if (k < n) mark(across(k + 0.5), String(k));
    }

    if (brush) {
      const [a, b] = [across(brush[0]), across(brush[1] + 1)];
      pen.globalAlpha = 0.62;
      pen.fillStyle = of("--tc-panel");
      pen.fillRect(LEFT, TOP, a - LEFT, under - TOP);
      pen.fillRect(b, TOP, LEFT + width - b, under - TOP);
      pen.globalAlpha = 1;
      pen.strokeStyle = of("--tc-accent");
      pen.lineWidth = 1.5;
      pen.strokeRect(a - 0.75, TOP - 0.75, b - a + 1.5, under - TOP + 1.5);
    }
    if (cursor) {
      pen.strokeStyle = of("--tc-ink");
      pen.lineWidth = 1;
      const [a, b] = [across(cursor.column * group), across(Math.min(n, (cursor.column + 1) * group))];
      const row = height / Math.max(1, rows.length);
      if (cursor.row === STACKED) pen.strokeRect(a - 0.5, TOP - 0.5, b - a + 1, STACK + 1);
      else if (cursor.row < 0) pen.strokeRect(a - 0.5, sumTop - 0.5, b - a + 1, PROFILE + 1);
      else pen.strokeRect(a - 0.5, top + cursor.row * row - 0.5, b - a + 1, row + 1);
    }
  }

  /** Mark the location that holds the critical path in each column, the more of it the stronger. */
  function drawPath(pen, of) {
    const row = height / Math.max(1, rows.length);
    const tall = Math.max(1.5, Math.min(4, 0.3 * row));
    pen.fillStyle = of("--tc-path");
    for (const { column, location, share } of path.held) {
      const [a, b] = [across(column * group), across(Math.min(n, (column + 1) * group))];
      const y = Math.min(top + (rowOf.get(location) + 1) * row, top + height) - tall;
      pen.globalAlpha = 0.15 + 0.85 * share;
      pen.fillRect(a, y, Math.max(1, b - a > 4 ? b - a - 1 : b - a), tall);
    }
    pen.globalAlpha = 1;
  }

  /** The place of a mouse: its column, and its row, -1 in the sums above, STACKED in what all of the time was spent on. */
  const find = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - LEFT, event.clientY - box.top];
    const column = Math.floor((x / width) * columns);
    if (x < 0 || column >= columns || y < TOP || y >= top + height) return null;
    if (y < top) return { column, row: run && y < sumTop - GAP / 2 ? STACKED : -1 };
    return { column, row: Math.min(rows.length - 1, Math.floor(((y - top) / height) * rows.length)) };
  };
  const nearest = (event) => {
    const x = event.clientX - canvas.current.getBoundingClientRect().left - LEFT;
    return Math.max(0, Math.min(columns - 1, Math.floor((x / width) * columns)));
  };
  const keys = (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape") {
      setCursor(null);
      model.setScope(null);
    } else if (event.key === "Enter" || event.key === " ") {
      if (cursor) choose(cursor.column, cursor.column);
    } else if (step && columns) {
      const at = cursor ?? { column: highest < 0 ? 0 : Math.floor(highest / group), row: -1 };
      const limit = (v, low, high) => Math.max(low, Math.min(high, v));
      if (!cursor) setCursor(at);
      else
        setCursor({
          column: limit(at.column + step[0], 0, columns - 1),
          row: limit(at.row + step[1], run ? STACKED : -1, rows.length - 1),
        });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const shown = cursor && byPeriod && cursor.column < columns ? describe() : null;
  function describe() {
    const from = cursor.column * group;
    const to = Math.min(n, from + group) - 1;
    if (cursor.row === STACKED) return stacked(from, to);
    const each = Array.from({ length: to - from + 1 }, (_, k) => from + k);
    const value = cursor.row >= 0 ? byPeriod.map[rows[cursor.row] * columns + cursor.column] : byPeriod.sums.over(each);
    return {
      value,
      title: `${periodText(periods, from, to)}, ${cursor.row >= 0 ? model.locationLabel(rows[cursor.row]) : "all locations"}`,
      when: whenText(periods, from, to),
      some: periods.n_locations[to] < most ? `only ${periods.n_locations[to]} of ${most} have it` : "",
      parts: holders(cursor.column, cursor.row >= 0 ? rows[cursor.row] : -1),
      left: across(from),
      top: cursor.row >= 0 ? top + (cursor.row * height) / rows.length : TOP,
    };
  }
  /** Who holds the critical path in a column, in words: some location, or with -1 those that hold most of it. */
  function holders(column, location) {
    if (!path) return [];
    const found = path.held.filter((h) => h.column === column).sort((a, b) => b.share - a.share);
    const words = ({ share }) => `${percent(share)} % of the critical path`;
    if (location >= 0) return found.filter((h) => h.location === location).map(words);
    return found.slice(0, 3).map((h) => `${model.locationLabel(h.location)}: ${words(h)}`);
  }
  /** What the time of some periods was spent on. */
  function stacked(from, to) {
    const of = run.parts.map(({ values }) => values.slice(from, to + 1).reduce((a, b) => a + b, 0) / periods.resolution);
    const value = of.reduce((a, b) => a + b, 0);
    const parts = run.parts.map(({ title }, k) => (of[k] ? `${title} ${percent(of[k] / value)} %` : "")).filter(Boolean);
    return {
      value,
      title: `${periodText(periods, from, to)}, ${ofRun}`,
      when: whenText(periods, from, to),
      some: "",
      parts,
      left: across(from),
      top: TOP,
    };
  }
  const { properties } = cube.header;
  const selection = model.selection();
  const commands = model.scope && timelineCommands(cube.header, periods, ...model.scope, shownOnTimeline(properties, selection));
  const what = selection.map(([p, open]) => properties.title[p] + (open ? " (rest)" : "")).join(" + ");
  const computed = model.isComputed("system");
  // ratios are no parts of a whole
  const sum = byPeriod && !computed ? byPeriod.profile.reduce((a, b) => a + b, 0) : 0;
  return (
    <section class="tc-time" aria-label="Time" data-pane="time">
      <div class="tc-tools">
        <h2>Time</h2>
        <span class="tc-time-what">
          {what} <span class="tc-muted">by {periods.kind === "bin" ? `time, ${periods.words}` : `phase, ${periods.words}`}</span>
        </span>
        {highest >= 0 && (
          <span class="tc-time-worst">
            {computed ? "largest" : "worst"}: {periodText(periods, highest)}, <b>{withUnit(byPeriod.profile[highest], unit)}</b>
            <span class="tc-muted">
              {" "}
              {sum ? `${percent(byPeriod.profile[highest] / sum)} % of all ${n}, ` : ""}
              {whenText(periods, highest)}
              {peak && peak.row >= 0 ? `; most of one location: ${withUnit(peak.value, unit)}, ${model.locationLabel(rows[peak.row])}` : ""}
            </span>
          </span>
        )}
        {byPeriod?.outside ? (
          <span class="tc-muted">
            outside of all {periods.kind}s: {withUnit(byPeriod.outside, unit)}
          </span>
        ) : null}
        {model.scope ? (
          <button type="button" class="tc-scope" title="Show all of the time again" onClick={() => model.setScope(null)}>
            above: only {periodText(periods, ...model.scope)} {"\u00d7"}
          </button>
        ) : (
          <span class="tc-muted tc-hint">click or drag: only these periods above</span>
        )}
        {similar && <Similar model={model} />}
        <span class="tc-gap" />
        <Save model={model} pane="time" label="Time" table={() => periodTable(model)} />
        {run && <ProfileLegend parts={run.parts} />}
        {path && (
          <span class="tc-part tc-muted" title="the location that holds the critical path in a period; the stronger, the more of it">
            <i class="tc-path" />
            critical path
          </span>
        )}
        <Legend model={model} range={range} unit={unit} note={group > 1 ? `a column is ${group} ${periods.kind}s` : ""} />
      </div>
      {commands && <Command model={model} what="its timeline:" command={commands.view} />}
      {commands && <Command model={model} what="for Perfetto:" command={commands.perfetto} />}
      <div class="tc-time-frame" ref={frame} style={{ height: `${top + AXIS + Math.max(40, Math.min(112, 14 * rows.length))}px` }}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={`${what} by ${periods.kind} and location: ${n} ${periods.kind}s, ${rows.length} locations, up to ${short(range.high, unit)}. ${shown ? `${shown.title}: ${withUnit(shown.value, unit)}` : ""}`}
          style={{ width: `${size.width}px`, height: `${size.height}px` }}
          onPointerDown={(event) => {
            const at = find(event);
            if (!at || event.button) return;
            event.currentTarget.setPointerCapture(event.pointerId);
            setDrag([at.column, at.column]);
          }}
          onPointerMove={(event) => {
            setCursor(find(event));
            if (drag) setDrag([drag[0], nearest(event)]);
          }}
          onPointerUp={() => {
            if (drag) choose(...drag);
            setDrag(null);
          }}
          onPointerCancel={() => setDrag(null)}
          onPointerLeave={() => setCursor(null)}
          onBlur={() => setCursor(null)}
          onKeyDown={keys}
        />
        {shown && (
          <div
            class="tc-tip"
            role="status"
            data-value={full(shown.value, unit)}
            style={
              shown.left > size.width / 2
                ? { right: `${size.width - shown.left + 6}px`, top: `${Math.min(shown.top, size.height - 56)}px` }
                : {
                    left: `${shown.left + Math.max(14, across(group) - across(0) + 6)}px`,
                    top: `${Math.min(shown.top, size.height - 56)}px`,
                  }
            }
          >
            <b>{withUnit(shown.value, unit)}</b>
            <span>{shown.title}</span>
            {shown.parts?.map((part) => (
              <span>{part}</span>
            ))}
            <span class="tc-muted">{[shown.when, shown.some].filter(Boolean).join(", ")}</span>
          </div>
        )}
      </div>
    </section>
  );
}

/** A command to run elsewhere, with a button that copies it. */
function Command({ model, what, command }) {
  const copy = async () => {
    model.say((await copyText(command)) ? "Command copied" : "The browser does not allow copying");
    model.emit();
  };
  return (
    <p class="tc-command">
      <span class="tc-muted">{what}</span> <code>{command}</code>
      <Tool icon="copy" title="Copy the command" onClick={copy} />
    </p>
  );
}
