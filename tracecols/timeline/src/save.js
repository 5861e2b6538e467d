// What is shown as a picture (SVG) and as a table (CSV). The picture is drawn by `draw` on something that takes the place of the
// canvas and writes vectors, so that it shows what the screen shows.
import { draw, geometry, ROW, RULER, SHARES } from "./draw.js";
import { pathOf, seconds } from "./words.js";

const LABELS = 190;
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
const round = (x) => Math.round(x * 100) / 100;

/** A colour as attributes that every program which reads SVG knows. */
function coloured(name, style) {
  const parts = /^rgb\((\d+) (\d+) (\d+)(?: \/ ([\d.]+)(%?))?\)$/.exec(style);
  if (!parts) return { [name]: style };
  const [, r, g, b, alpha, share] = parts;
  const opacity = alpha === undefined ? {} : { [`${name}-opacity`]: Number(alpha) / (share ? 100 : 1) };
  return { [name]: `rgb(${r},${g},${b})`, ...opacity };
}

/** A drawing context that writes SVG: the part of CanvasRenderingContext2D that `draw` uses. */
class Vectors {
  constructor() {
    this.parts = [];
    this.ruler = new OffscreenCanvas(1, 1).getContext("2d");
    this.dash = [];
    this.path = "";
    this.groups = 0;
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineJoin: "miter", font: "11px sans-serif" });
  }

  add(tag, given, text = "") {
    const attributes = Object.entries(given).map(([name, value]) => ` ${name}="${escaped(value)}"`);
    this.parts.push(`<${tag}${attributes.join("")}${text ? `>${escaped(text)}</${tag}>` : "/>"}`);
  }

  // the only pattern is that of waits
  get paint() {
    return coloured("fill", typeof this.fillStyle === "string" ? this.fillStyle : "url(#waits)");
  }

  stroked(given) {
    const dash = this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {};
    return { ...given, fill: "none", ...coloured("stroke", this.strokeStyle), "stroke-width": this.lineWidth, "stroke-linejoin": this.lineJoin, ...dash };
  }

  save() {}

  restore() {
    while (this.groups) {
      this.parts.push("</g>");
      this.groups--;
    }
  }

  clip() {
    const [x, y, w, h] = this.clipped;
    this.parts.push(`<clipPath id="rows"><rect x="${x}" y="${y}" width="${w}" height="${h}"/></clipPath><g clip-path="url(#rows)">`);
    this.groups++;
  }

  clearRect() {}

  beginPath() {
    this.path = "";
  }

  rect(...box) {
    this.clipped = box;
  }

  moveTo(x, y) {
    this.path += `M${round(x)} ${round(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${round(x)} ${round(y)}`;
  }

  stroke() {
    if (this.path) this.add("path", this.stroked({ d: this.path }));
  }

  fill() {
    if (this.path) this.add("path", { d: this.path, ...this.paint });
  }

  fillRect(x, y, width, height) {
    this.add("rect", { x: round(x), y: round(y), width: round(width), height: round(height), ...this.paint });
  }

  strokeRect(x, y, width, height) {
    this.add("rect", this.stroked({ x: round(x), y: round(y), width: round(width), height: round(height) }));
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  words(text, x, y, given) {
    this.add("text", { x: round(x), y: round(y), style: `font: ${this.font}`, "dominant-baseline": "central", ...given }, text);
  }

  fillText(text, x, y) {
    this.words(text, x, y, this.paint);
  }

  strokeText(text, x, y) {
    this.words(text, x, y, this.stroked({}));
  }

  drawImage(image, x, y, width, height) {
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [image.width, image.height];
    copy.getContext("2d").drawImage(image, 0, 0);
    this.add("image", {
      x: round(x), y: round(y), width: round(width), height: round(height),
      preserveAspectRatio: "none", style: "image-rendering: pixelated", href: copy.toDataURL(),
    });
  }
}

/** The rows that are shown, with their names, as the text of an SVG file. */
export function asSvg(view) {
  const look = getComputedStyle(document.documentElement);
  const [ground, ink] = ["--panel", "--ink"].map((name) => look.getPropertyValue(name).trim() || "#888");
  const g = new Vectors();
  draw(g, view);
  const at = geometry(view);
  const names = new Vectors();
  names.fillStyle = ink;
  for (const { row, level } of view.inView) {
    const { top } = at.row(row);
    names.fillText(view.about.rows[row].label, 6 + 10 * level, top + ROW / 2 - 1);
  }
  const width = LABELS + Math.ceil(view.width);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${view.height}" viewBox="0 0 ${width} ${view.height}">`,
    `<title>${escaped(view.about.name)}, ${seconds(view.about, view.state.from)} s to ${seconds(view.about, view.state.to)} s</title>`,
    '<defs><pattern id="waits" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5" stroke="#3c0a28" stroke-opacity="0.75" stroke-width="1.2"/></pattern></defs>',
    `<rect width="${width}" height="${view.height}" fill="${escaped(ground)}"/>`,
    `<clipPath id="names"><rect width="${LABELS - 8}" height="${view.height}" y="${RULER + SHARES}"/></clipPath>`,
    `<g clip-path="url(#names)">${names.parts.join("\n")}</g>`,
    `<g transform="translate(${LABELS} 0)">`,
    ...g.parts,
    "</g></svg>\n",
  ].join("\n");
}

const COLUMNS = ["what", "name", "row", "begin_seconds", "end_seconds", "to_row", "count", "call_path"];

/** What is shown as rows of a table: single events, or the shares of time of each row and bin where those cannot be told apart; then counters. */
export function asRows(view) {
  const isOfEvents = view.answer.says.detail && !view.onlyCells;
  const found = isOfEvents ? eventsOf(view) : view.difference ? differencesOf(view) : cellsOf(view);
  return view.state.counters && view.counters?.says.counters.length ? withCounters(view, found, isOfEvents) : found;
}

const OF_COUNTERS = ["counter", "unit", "samples", "min", "mean", "max", "last"];

/** Append what is drawn of counters to the rows of a table: a row for each sample, or for several that share a column of pixels. */
function withCounters(view, [head, ...rows], isOfEvents) {
  const { about, counters, countersOf, layout } = view;
  const a = counters.arrays;
  const found = [[...head, ...OF_COUNTERS], ...rows.map((row) => [...row, ...OF_COUNTERS.map(() => "")])];
  for (const { row } of layout) {
    const { location, label } = about.rows[row];
    for (const k of countersOf.get(location) ?? []) {
      const { name, unit } = counters.says.counters[k];
      for (let i = a["counter.start"][k]; i < a["counter.start"][k + 1]; i++) {
        const given = { what: "counter", row: isOfEvents ? view.nameOf(location) : label, begin_seconds: seconds(about, a["counter.begin"][i]), end_seconds: seconds(about, a["counter.time"][i]) };
        const [count, low, total, high, last] = ["count", "low", "total", "high", "last"].map((part) => a[`counter.${part}`][i]);
        found.push([...head.map((column) => given[column] ?? ""), name, unit, count, low, total / count, high, last]);
      }
    }
  }
  return found;
}

/** The region instances, waits and messages that are shown. */
function eventsOf(view) {
  const { about, answer, state } = view;
  const a = answer.arrays;
  const time = (ticks) => seconds(about, Number(ticks));
  const inRange = (begin, end) => begin < state.to && end > state.from;
  const rows = [COLUMNS];
  const each = (table, more) => {
    for (let i = 0; i < a[`${table}.begin`].length; i++) if (inRange(a[`${table}.begin`][i], a[`${table}.end`][i])) rows.push(more(i));
  };
  const shown = (location) => view.nameOf(Number(location));
  each("slice", (i) => ["region", a["slice.count"][i] > 1 ? "" : (about.regions[a["slice.name"][i]] ?? ""), shown(a["slice.location"][i]), time(a["slice.begin"][i]), time(a["slice.end"][i]), "", a["slice.count"][i], ""]);
  each("waits", (i) => {
    const cause = Number(a["waits.cause_location"][i]);
    return ["wait", about.waits[a["waits.property"][i]]?.id ?? "", shown(a["waits.location"][i]), time(a["waits.begin"][i]), time(a["waits.end"][i]), cause >= 0 ? shown(cause) : "", 1, pathOf(about, a["waits.call_path"][i], 100)];
  });
  each("messages", (i) => ["message", "", shown(a["messages.send_location"][i]), time(a["messages.send_time"][i]), time(a["messages.recv_time"][i]), shown(a["messages.recv_location"][i]), 1, ""]);
  return rows;
}

/** The shares of both runs by row and bin of the second one. */
function differencesOf({ about, difference }) {
  const { edges, first, second } = difference.arrays;
  const n = edges.length - 1;
  const found = [["row", "begin_seconds", "end_seconds", `${difference.says.part}_share_A`, `${difference.says.part}_share_B`]];
  difference.rows.forEach((row, r) => {
    for (let b = 0; b < n; b++) {
      const shares = [first[r * n + b], second[r * n + b]].map((share) => (Number.isNaN(share) ? "" : share));
      found.push([about.rows[row].label, seconds(about, edges[b]), seconds(about, edges[b + 1]), ...shares]);
    }
  });
  return found;
}

/** Seconds of each class of time, or of the property that is shown, by row and bin. */
function cellsOf(view) {
  const { about, answer, rows, state } = view;
  const { ticks, severity, edges } = answer.arrays;
  const n = edges.length - 1;
  const isSeverity = Boolean(state.severity);
  const titles = isSeverity ? [state.severity] : about.classes;
  const found = [["row", "begin_seconds", "end_seconds", ...titles.map((id) => `${id}_seconds`)]];
  rows.forEach((row, r) => {
    // the first row is asked for besides those that are shown
    if (rows.indexOf(row) < r) return;
    for (let b = 0; b < n; b++) {
      const values = isSeverity ? [severity[r * n + b]] : titles.map((_, c) => ticks[(c * rows.length + r) * n + b]);
      found.push([about.rows[row].label, seconds(about, edges[b]), seconds(about, edges[b + 1]), ...values.map((v) => Number(v) / about.resolution)]);
    }
  });
  return found;
}

/** A table as the text of a CSV file (RFC 4180). */
export function asCsv(rows) {
  const cell = (value) => (/[",\r\n]/.test(String(value)) ? `"${String(value).replace(/"/g, '""')}"` : String(value));
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Let the browser save a text as a file that is named after the trace and the range of time. */
export function download(view, ending, type, text) {
  const { about, state } = view;
  const safe = about.name.replace(/[^\w.+-]+/g, "_");
  const name = `${safe}.${seconds(about, state.from).toFixed(6)}-${seconds(about, state.to).toFixed(6)}.${ending}`;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  return name;
}
