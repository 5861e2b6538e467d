// The canvas: cells of the overview, slices, waits, messages, the critical path, and what is selected.
import { classOf, css, inkOn, isDark, ofClass, ofDifference, ofRegion, ofShare, receding } from "./colours.js";
import { duration, steps } from "./words.js";

export const ROW = 24;
export const LEVEL = 15;
export const RULER = 24;
export const SHARES = 46;
const GAP = 2;
const LINE = 34;
const HEAT = 15;
const MOST_LINES = 4;

/** The height of each of the lanes of n counters of a location: lines, or a heat map where there are many. */
export const laneHeight = (n) => (n > MOST_LINES ? HEAT : LINE);

/**
 * Draw the cells of an answer once: an image of one pixel per bin, and of the height of the rows. If some call paths are to stand
 * out, cells that spend most of their time on others are dimmed.
 */
export function imageOf(about, answer, rows, through = null) {
  const { arrays, says } = answer;
  const [nClasses, , nBins] = arrays.ticks.shape;
  const colours = about.classes.map(ofClass);
  const images = new Map();
  const largest = arrays.severity ? arrays.severity.reduce((a, b) => Math.max(a, b), 0) : 0;
  rows.forEach((row, r) => {
    const height = r === 0 ? SHARES - 6 : ROW - GAP;
    const image = new ImageData(nBins, height);
    const isDimmed = (b) => through && r > 0 && about.rows[row].location >= 0 && !(arrays.path[r * nBins + b] >= 0 && through[arrays.path[r * nBins + b]]);
    for (let b = 0; b < nBins; b++) {
      const shade = isDimmed(b) ? receding : (colour) => colour;
      const width = (arrays.edges[b + 1] - arrays.edges[b]) * about.rows[row].n;
      if (arrays.severity && r > 0) {
        const value = arrays.severity[r * nBins + b] / about.rows[row].n;
        fill(image, b, 0, height, shade(ofShare(largest ? value / largest : 0)), 255);
        continue;
      }
      let done = 0;
      let y = height;
      for (let c = 0; c < nClasses; c++) {
        done += Math.max(0, arrays.ticks[(c * rows.length + r) * nBins + b]);
        const top = Math.max(0, Math.round(height * (1 - done / width)));
        if (top < y) fill(image, b, top, y, shade(colours[c]), 255);
        y = Math.min(y, top);
      }
    }
    const canvas = new OffscreenCanvas(nBins, height);
    canvas.getContext("2d").putImageData(image, 0, 0);
    images.set(row, canvas);
  });
  return { images, level: says.level, from: arrays.edges[0], to: arrays.edges[nBins] };
}

/** Draw the cells of a difference once, as `imageOf`: where the second run has more and where it has less, against the largest one. */
export function imageOfDifference({ arrays }, rows) {
  const { edges, first, second } = arrays;
  const n = edges.length - 1;
  let largest = 0;
  for (let i = 0; i < first.length; i++) if (!Number.isNaN(first[i])) largest = Math.max(largest, Math.abs(second[i] - first[i]));
  const images = new Map();
  rows.forEach((row, r) => {
    const image = new ImageData(n, 1);
    for (let b = 0; b < n; b++) {
      const by = second[r * n + b] - first[r * n + b];
      fill(image, b, 0, 1, ofDifference(largest ? by / largest : by), 255);
    }
    const canvas = new OffscreenCanvas(n, 1);
    canvas.getContext("2d").putImageData(image, 0, 0);
    images.set(row, canvas);
  });
  return { images, largest, from: edges[0], to: edges[n] };
}

function fill(image, x, from, to, [r, g, b], a) {
  for (let y = from; y < to; y++) {
    const at = 4 * (y * image.width + x);
    image.data[at] = r;
    image.data[at + 1] = g;
    image.data[at + 2] = b;
    image.data[at + 3] = a;
  }
}

let hatch = null;
let hatchOf = null;
function hatching(g) {
  if (hatchOf === isDark()) return hatch;
  const tile = new OffscreenCanvas(6, 6);
  const t = tile.getContext("2d");
  t.strokeStyle = css(isDark() ? [255, 255, 255] : [60, 10, 40], 0.75);
  t.lineWidth = 1.2;
  t.beginPath();
  for (const d of [-6, 0, 6]) {
    t.moveTo(d, 6);
    t.lineTo(d + 6, 0);
  }
  t.stroke();
  hatch = g.createPattern(tile, "repeat");
  hatchOf = isDark();
  return hatch;
}

/** Where everything is on the screen: `x(ticks)`, `ticks(x)`, `band(location)`. */
export function geometry(view) {
  const { state, width } = view;
  const scale = width / (state.to - state.from);
  const places = new Map();
  const place = (line) => {
    if (line && !places.has(line)) {
      // lanes of counters are below what the row shows otherwise
      const lanes = view.lanesOf(line.row);
      places.set(line, { top: RULER + SHARES + line.y - view.scroll, height: line.height - lanes, lanes });
    }
    return places.get(line);
  };
  return {
    x: (ticks) => (ticks - state.from) * scale,
    ticks: (x) => state.from + x / scale,
    row: (row) => place(view.lineOf.get(row)),
    band: (location) => place(view.lineOn(location)),
    scale,
  };
}

/** Draw everything; returns what was drawn, for whoever points at it. */
export function draw(g, view) {
  const { about, state, answer, cells, width, height } = view;
  const at = geometry(view);
  const look = getComputedStyle(document.documentElement);
  const colour = (name) => look.getPropertyValue(name).trim();
  g.clearRect(0, 0, width, height);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  const found = { slices: [], waits: [], texts: [] };
  g.save();
  g.beginPath();
  g.rect(0, RULER + SHARES, width, height);
  g.clip();
  for (const { row, height: h } of view.inView) {
    const { top } = at.row(row);
    if (row === state.row) {
      g.fillStyle = colour("--hover");
      g.fillRect(0, top, width, h);
    }
    const shown = view.difference?.cells ?? cells;
    if (shown?.images.has(row) && !view.hasEvents(row)) paint(g, shown, row, at, top, ROW - GAP);
  }
  if (answer?.says.detail && !view.onlyCells) {
    drawSlices(g, view, at, found);
    drawWaits(g, view, at, found);
    for (const [text, x, y, room, ground] of found.texts) write(g, text, x, y, room, ground);
    if (state.path < 2) drawMessages(g, view, at);
  }
  if (state.path === 2) {
    g.fillStyle = colour("--veil");
    g.fillRect(0, RULER + SHARES, width, height);
  }
  if (state.path && answer?.says.detail) drawPath(g, view, at, colour("--path"));
  if (state.counters) for (const { row } of view.inView) drawCounters(g, view, at, row, colour);
  drawCause(g, view, at, colour);
  drawCursor(g, view, at, colour);
  if (about.folded) drawDashed(g, view, at.x(about.folded.median), colour("--accent"));
  if (view.pair) drawDashed(g, view, at.x(view.isSecond ? view.pair.found.second : view.pair.found.first), colour("--accent"));
  g.restore();
  if (cells?.images.has(0)) paint(g, cells, 0, at, RULER + 2, SHARES - 6);
  drawRuler(g, view, at, colour);
  drawRange(g, view, at, colour);
  return found;
}

function paint(g, cells, row, at, top, height) {
  g.imageSmoothingEnabled = false;
  const x = at.x(cells.from);
  g.drawImage(cells.images.get(row), x, top, at.x(cells.to) - x, height);
}

function drawSlices(g, view, at, found) {
  const { about, answer } = view;
  const a = answer.arrays;
  const n = a["slice.begin"].length;
  const order = a.order ?? (a.order = Uint32Array.from({ length: n }, (_, i) => i).sort((i, k) => a["slice.depth"][i] - a["slice.depth"][k]));
  const labelled = [];
  const standsOut = view.state.region < 0 ? null : within(a, view.state.region);
  for (const i of order) {
    const location = a["slice.location"][i];
    const row = view.rowOf.get(location);
    const band = at.row(row);
    if (!band || band.top > view.height || band.top + band.height < 0) continue;
    const x = at.x(a["slice.begin"][i]);
    const w = Math.max(at.x(a["slice.end"][i]) - x, 0.6);
    if (x > view.width || x + w < 0) continue;
    const isFlame = view.state.flames.has(row);
    const depth = a["slice.depth"][i];
    const top = isFlame ? band.top + depth * LEVEL : band.top;
    const h = isFlame ? LEVEL - 1 : ROW - GAP;
    const name = about.regions[a["slice.name"][i]] ?? "";
    const count = a["slice.count"][i];
    const own = count > 1 ? [150, 154, 162] : ofRegion(name, classOf(about.paradigms[a["slice.name"][i]] ?? "", about.rows[row].kind));
    const fillColour = !standsOut || standsOut[i] ? own : receding(own);
    g.fillStyle = css(fillColour, count > 1 ? 0.75 : 1);
    g.fillRect(x, top, w, h);
    if (w > 3) {
      g.fillStyle = "rgb(0 0 0 / 25%)";
      g.fillRect(x, top, 0.7, h);
    }
    if (w > 3) labelled.push([isFlame ? `${row} ${depth}` : `${row}`, count > 1 ? `${count} x` : name, x, w, top + h / 2 + 0.5, fillColour]);
    found.slices.push({ i, x, w, top, h, depth });
  }
  found.texts = placed(labelled, view.width);
}

/** Which slices are instances of a region, or inside of one. */
function within(a, region) {
  const n = a["slice.begin"].length;
  const ends = new Map();
  const found = new Uint8Array(n);
  // by depth: what encloses a slice comes before it, and of one location it begins at most as late
  for (const i of a.order) {
    const location = a["slice.location"][i];
    if (!ends.has(location)) ends.set(location, []);
    const spans = ends.get(location);
    const [begin, end] = [a["slice.begin"][i], a["slice.end"][i]];
    let [low, high] = [0, spans.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle][0] <= begin) low = middle + 1;
      else high = middle;
    }
    if (low && spans[low - 1][1] >= end) found[i] = 1;
    else if (a["slice.count"][i] === 1 && a["slice.name"][i] === region) {
      found[i] = 1;
      spans.splice(low, 0, [begin, end]);
    }
  }
  return found;
}

/** Place names where no deeper slice of the same line is: [text, x, y, room, ground]. */
function placed(labelled, width) {
  const covered = new Map();
  const found = [];
  for (const [line, text, x, w, y, ground] of labelled.reverse()) {
    if (!covered.has(line)) covered.set(line, new Uint8Array(Math.ceil(width) + 1));
    const taken = covered.get(line);
    const from = Math.max(0, Math.floor(x));
    const to = Math.min(taken.length, Math.ceil(x + w));
    let end = from;
    while (end < to && !taken[end]) end++;
    if (end - from > 34) found.push([text, Math.max(x, 0) + 4, y, end - Math.max(x, 0) - 6, ground]);
    taken.fill(1, from, to);
  }
  return found;
}

function write(g, text, x, y, room, ground) {
  let shown = text;
  if (g.measureText(text).width > room) {
    const n = Math.floor((room / g.measureText(text).width) * text.length) - 1;
    if (n < 3) return;
    shown = `${text.slice(0, n)}…`;
  }
  // what is hatched is read against its own colour
  g.lineWidth = 2.5;
  g.strokeStyle = css(ground, 0.8);
  g.strokeText(shown, x, y);
  g.fillStyle = inkOn(ground);
  g.fillText(shown, x, y);
}

function drawWaits(g, view, at, found) {
  const a = view.answer.arrays;
  for (let i = 0; i < a["waits.begin"].length; i++) {
    const band = at.band(a["waits.location"][i]);
    if (!band) continue;
    const x = at.x(a["waits.begin"][i]);
    const w = Math.max(at.x(a["waits.end"][i]) - x, 1);
    if (x > view.width || x + w < 0) continue;
    const h = band.height - GAP;
    g.fillStyle = css(ofClass("waits"), 0.55);
    g.fillRect(x, band.top, w, h);
    g.fillStyle = hatching(g);
    g.fillRect(x, band.top, w, h);
    found.waits.push({ i, x, w, top: band.top, h });
  }
}

function drawMessages(g, view, at) {
  const a = view.answer.arrays;
  const middle = (location) => {
    const band = at.band(location);
    return band && band.top + Math.min(ROW, band.height) / 2;
  };
  const line = (x, y, x2, y2) => {
    if (y === undefined || y2 === undefined) return;
    g.moveTo(x, y);
    g.lineTo(x2, y2);
  };
  g.lineWidth = 1;
  g.strokeStyle = css(isDark() ? [235, 238, 245] : [30, 34, 44], 0.65);
  g.beginPath();
  for (let i = 0; i < a["messages.begin"].length; i++)
    line(at.x(a["messages.send_time"][i]), middle(a["messages.send_location"][i]), at.x(a["messages.recv_time"][i]), middle(a["messages.recv_location"][i]));
  for (let i = 0; i < a["launches.begin"].length; i++)
    line(at.x(a["launches.launch_time"][i]), middle(a["launches.launch_location"][i]), at.x(a["launches.kernel_time"][i]), middle(a["launches.location"][i]));
  for (let i = 0; i < a["copies.begin"].length; i++)
    line(at.x(a["copies.copy_time"][i]), middle(a["copies.copy_location"][i]), at.x(a["copies.begin"][i]), middle(a["copies.location"][i]));
  g.stroke();
  const members = new Map();
  for (let i = 0; i < a["collectives.begin"].length; i++) {
    const of = a["collectives.collective"][i];
    const y = middle(a["collectives.location"][i]);
    if (y === undefined) continue;
    if (!members.has(of)) members.set(of, []);
    members.get(of).push([at.x(a["collectives.begin"][i]), y]);
  }
  g.setLineDash([3, 3]);
  g.beginPath();
  for (const points of members.values()) {
    points.sort((p, q) => p[1] - q[1]);
    points.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
  }
  g.stroke();
  g.setLineDash([]);
}

function drawPath(g, view, at, colour) {
  const a = view.answer.arrays;
  g.strokeStyle = colour;
  g.lineWidth = 2.5;
  g.lineJoin = "round";
  g.beginPath();
  let is = false;
  for (let i = 0; i < a["path.begin"].length; i++) {
    const band = at.band(a["path.location"][i]);
    if (!band) continue;
    const y = band.top + Math.min(ROW, band.height) / 2;
    if (is) g.lineTo(at.x(a["path.begin"][i]), y);
    else g.moveTo(at.x(a["path.begin"][i]), y);
    g.lineTo(at.x(a["path.end"][i]), y);
    is = true;
  }
  g.stroke();
}

/** Draw the selected wait or slice, the interval that was waited for, and an arrow from the wait to its cause. */
function drawCause(g, view, at, colour) {
  const { chosen, explained } = view;
  if (!chosen) return;
  const band = chosen.kind === "cell" ? at.row(chosen.row) : at.band(chosen.location);
  const frame = (b, begin, end) => {
    const x = at.x(begin);
    g.strokeStyle = colour("--accent");
    g.lineWidth = 2;
    g.strokeRect(x, b.top + 0.5, Math.max(at.x(end) - x, 2), b.height - GAP - 1);
  };
  if (band) frame(band, chosen.begin, chosen.end);
  const cause = explained?.cause;
  if (!cause || cause.location === undefined) return;
  const other = at.band(cause.location);
  if (!other) return;
  const [x, x2] = [at.x(cause.since), at.x(cause.until)];
  g.fillStyle = colour("--shade");
  g.fillRect(x, other.top, Math.max(x2 - x, 2), other.height - GAP);
  g.strokeStyle = colour("--accent");
  g.lineWidth = 1.5;
  g.setLineDash([5, 3]);
  g.strokeRect(x, other.top + 0.5, Math.max(x2 - x, 2), other.height - GAP - 1);
  g.setLineDash([]);
  if (!band) return;
  arrow(g, at.x(chosen.end), band.top + band.height / 2, x2, other.top + other.height / 2, colour("--accent"));
}

/** Draw the counters of a row: the value that holds at each time, and the least and the largest one where a column has several. */
function drawCounters(g, view, at, row, colour) {
  const { about, counters, width } = view;
  const listed = view.countersOf.get(about.rows[row].location);
  const band = at.row(row);
  if (!listed || band.top > view.height || band.top + band.height + band.lanes < 0) return;
  const a = counters.arrays;
  const height = laneHeight(listed.length);
  listed.forEach((k, lane) => {
    const { min, max } = counters.says.counters[k];
    const top = band.top + band.height + lane * height;
    const [first, end] = [a["counter.start"][k], a["counter.start"][k + 1]];
    const clipped = (ticks) => Math.min(Math.max(at.x(ticks), -2), width + 2);
    const share = (v) => (max > min ? (v - min) / (max - min) : 0.5);
    if (height === HEAT)
      for (let i = first; i < end; i++) {
        // the mean of several samples between them, and the last one until the next point
        const [from, x] = [clipped(a["counter.begin"][i]), clipped(a["counter.time"][i])];
        g.fillStyle = css(ofShare(share(a["counter.total"][i] / a["counter.count"][i])));
        if (x > from) g.fillRect(from, top, x - from, HEAT - 1);
        g.fillStyle = css(ofShare(share(a["counter.last"][i])));
        g.fillRect(x, top, (i + 1 < end ? clipped(a["counter.begin"][i + 1]) : width) - x, HEAT - 1);
      }
    else {
      const y = (v) => top + LINE - 4 - share(v) * (LINE - 8);
      g.strokeStyle = colour("--accent");
      g.lineWidth = 1.2;
      g.beginPath();
      for (let i = first; i < end; i++) {
        const x = clipped(a["counter.time"][i]);
        if (i > first) g.lineTo(x, y(a["counter.last"][i - 1]));
        else g.moveTo(x, y(a["counter.last"][i]));
        if (a["counter.low"][i] < a["counter.high"][i]) {
          g.lineTo(x, y(a["counter.low"][i]));
          g.lineTo(x, y(a["counter.high"][i]));
        }
        g.lineTo(x, y(a["counter.last"][i]));
      }
      if (end > first) g.lineTo(width, y(a["counter.last"][end - 1]));
      g.stroke();
    }
    g.font = "10px system-ui, sans-serif";
    g.lineWidth = 3;
    g.strokeStyle = colour("--panel");
    g.strokeText(view.counterInWords(k), 4, top + 7);
    g.fillStyle = colour("--ink");
    g.fillText(view.counterInWords(k), 4, top + 7);
  });
  g.font = "11px system-ui, sans-serif";
}

/** Draw the cursor of the keyboard around its cell, which may be narrower than a pixel. */
function drawCursor(g, view, at, colour) {
  const cell = view.cursorCell;
  const band = at.row(view.state.row);
  if (!cell || !band) return;
  const [left, right] = [Math.max(at.x(cell.begin), 0), Math.min(at.x(cell.end), view.width)];
  const w = Math.max(right - left, 3);
  const x = Math.min(left, view.width - w);
  for (const [name, by, width] of [["--panel", 3, 4], ["--ink", 3, 2]]) {
    g.strokeStyle = colour(name);
    g.lineWidth = width;
    g.strokeRect(x - by, band.top - 1, w + 2 * by, band.height);
  }
}

/** Draw a time over all rows: how long the instances of a folded phase usually last, or where two runs are aligned. */
function drawDashed(g, view, x, colour) {
  g.strokeStyle = colour;
  g.lineWidth = 1.5;
  g.setLineDash([4, 4]);
  g.beginPath();
  g.moveTo(x, RULER + SHARES);
  g.lineTo(x, view.height);
  g.stroke();
  g.setLineDash([]);
}

function arrow(g, x, y, x2, y2, colour) {
  g.strokeStyle = g.fillStyle = colour;
  g.lineWidth = 2;
  g.beginPath();
  g.moveTo(x, y);
  g.lineTo(x2, y2);
  g.stroke();
  const angle = Math.atan2(y2 - y, x2 - x);
  g.beginPath();
  g.moveTo(x2, y2);
  for (const d of [-0.45, 0.45]) g.lineTo(x2 - 10 * Math.cos(angle + d), y2 - 10 * Math.sin(angle + d));
  g.fill();
}

function drawRuler(g, view, at, colour) {
  const { about, state, width } = view;
  g.fillStyle = colour("--panel");
  g.fillRect(0, 0, width, RULER);
  g.strokeStyle = g.fillStyle = colour("--muted");
  g.lineWidth = 1;
  g.beginPath();
  for (const [ticks, text] of steps(about, state.from, state.to, width / 110)) {
    const x = Math.round(at.x(ticks)) + 0.5;
    g.moveTo(x, RULER - 7);
    g.lineTo(x, RULER);
    const room = g.measureText(text).width;
    if (x + 4 + room < width) g.fillText(text, x + 4, RULER / 2);
  }
  g.stroke();
}

function drawRange(g, view, at, colour) {
  const { about, range, width, height } = view;
  if (!range) return;
  const [x, x2] = [at.x(range[0]), at.x(range[1])];
  g.fillStyle = colour("--range");
  g.fillRect(x, RULER, x2 - x, height);
  g.fillStyle = colour("--accent");
  g.fillRect(x, 0, 1.5, height);
  g.fillRect(x2, 0, 1.5, height);
  const text = duration(about, range[1] - range[0]);
  g.font = "600 11px system-ui, sans-serif";
  const room = g.measureText(text).width;
  const left = Math.min(Math.max(x + 4, 2), width - room - 4);
  // times of the ruler below it would make it unreadable
  g.fillStyle = colour("--panel");
  g.fillRect(left - 2, 2, room + 4, RULER - 10);
  g.fillStyle = colour("--accent");
  g.fillText(text, left, RULER / 2);
}
