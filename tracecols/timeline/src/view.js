// The view: what is shown, asked for and selected. Nothing here draws; whoever listens is called when something changed.
import { imageOf, laneHeight, RULER, ROW, SHARES, LEVEL } from "./draw.js";
import { ask } from "./server.js";
import { fromAddress, kept, shownRows, toAddress } from "./state.js";
import { duration, moment, percent, shortened, value } from "./words.js";

export class View {
  /** `pair` is of two runs on the page, of which this may be the second one; the address says what is shown. */
  constructor(about, redraw, say, { hash, pair = null, isSecond = false }) {
    this.pair = pair;
    this.isSecond = isSecond;
    this.difference = null;
    this.about = about;
    this.redraw = redraw;
    this.say = say;
    this.width = 800;
    this.height = 400;
    this.scroll = 0;
    this.answer = this.cells = this.strip = this.range = null;
    this.chosen = this.explained = this.instances = this.cursor = null;
    this.instanceOf = -1;
    this.at = -1;
    this.trail = [];
    this.depthOf = new Map();
    this.counters = null;
    this.countersOf = new Map();
    this.trouble = "";
    this.pending = this.asked = 0;
    this.rowOf = new Map(about.rows.map((row, i) => [row.location, i]));
    this.state = fromAddress(hash, about);
    this.lay();
  }

  // -- rows ----------------------------------------------------------------------------------------------------------

  /** Lay out the rows: which are shown, their heights, and how far each is below the first. */
  lay() {
    const closed = [...this.state.closed].join();
    if (this.laid !== closed) {
      this.laid = closed;
      this.layout = shownRows(this.about, this.state.closed).map(([row, level]) => ({ row, level, y: 0, height: 0 }));
      this.lineOf = new Map(this.layout.map((line) => [line.row, line]));
    }
    this.total = 0;
    for (const line of this.layout) {
      line.y = this.total;
      line.height = this.heightOf(line.row);
      this.total += line.height;
    }
  }

  /** The height of the lanes of counters below a row. */
  lanesOf(row) {
    const n = this.state.counters ? (this.countersOf.get(this.about.rows[row].location)?.length ?? 0) : 0;
    return n * laneHeight(n);
  }

  heightOf(row) {
    const { location } = this.about.rows[row];
    return this.lanesOf(row) + (this.state.flames.has(row) ? Math.max(ROW, LEVEL * ((this.depthOf.get(location) ?? 0) + 1) + 4) : ROW);
  }

  /** The line that a location is drawn on: its own, or that of the closed row above it. */
  lineOn(location) {
    let row = location >= 0 ? this.rowOf.get(location) : undefined;
    while (row > 0 && !this.lineOf.has(row)) row = this.about.rows[row].parent;
    return this.lineOf.get(row);
  }

  /** The name of a location, with that of what it belongs to. */
  nameOf(location) {
    const row = this.about.rows[this.rowOf.get(location)];
    const above = this.about.rows[row.parent];
    return row.parent > 0 && above.parent > 0 ? `${above.label}, ${row.label}` : row.label;
  }

  /** The lines on the screen, at most 400. */
  get inView() {
    const { layout } = this;
    let [low, high] = [0, layout.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (layout[middle].y + layout[middle].height > this.scroll) high = middle;
      else low = middle + 1;
    }
    const end = this.scroll + this.height - RULER - SHARES;
    const found = [];
    while (low < layout.length && layout[low].y < end && found.length < 400) found.push(layout[low++]);
    return found;
  }

  get visible() {
    return this.inView.map(({ row }) => row);
  }

  toggle(row) {
    const { closed, flames } = this.state;
    const set = this.about.rows[row].location >= 0 ? flames : closed;
    if (!set.delete(row)) set.add(row);
    this.changed();
  }

  focusRow(row) {
    this.state.row = row;
    const line = this.lineOf.get(row);
    if (line) {
      const room = this.height - RULER - SHARES;
      if (line.y < this.scroll) this.scroll = line.y;
      else if (line.y + line.height > this.scroll + room) this.scroll = line.y + line.height - room;
    }
    this.changed();
  }

  moveRow(by) {
    const at = this.layout.findIndex(({ row }) => row === this.state.row);
    const next = this.layout[Math.max(0, Math.min(this.layout.length - 1, at + by))];
    if (next) this.focusRow(next.row);
  }

  /** Open what is above a location's row, and scroll there. */
  reveal(location) {
    const row = this.rowOf.get(location);
    for (let k = this.about.rows[row].parent; k >= 0; k = this.about.rows[k].parent) this.state.closed.delete(k);
    this.lay();
    this.focusRow(row);
  }

  // -- time ----------------------------------------------------------------------------------------------------------

  /** Ask the server; as long as it has not answered, the view is not settled. */
  async ask(name, given, signal) {
    this.asked++;
    try {
      return await ask(name, given, signal, this.about.base);
    } finally {
      this.asked--;
    }
  }

  go(from, to) {
    // the second run follows the first one
    if (this.isSecond) return this.pair.views[0].go(this.pair.toFirst(from), this.pair.toFirst(to));
    Object.assign(this.state, kept(from, to, this.about));
    this.changed();
  }

  /** Zoom by a factor around a time; by default the middle, or what is selected if that is seen. */
  zoom(factor, around = undefined) {
    const { from, to } = this.state;
    let t = around ?? (from + to) / 2;
    const c = this.chosen;
    if (around === undefined && this.cursor) t = Math.min(Math.max(this.cursor.time, from), to);
    else if (around === undefined && c && c.end > from && c.begin < to) t = Math.min(Math.max((c.begin + c.end) / 2, from), to);
    this.go(t - (t - from) * factor, t + (to - t) * factor);
  }

  pan(share) {
    const { from, to } = this.state;
    const by = Math.round((to - from) * share);
    this.go(from + by, to + by);
  }

  whole() {
    this.go(...this.about.span);
  }

  // -- what is shown -------------------------------------------------------------------------------------------------

  /** Something changed: draw what is there, and ask for what is not. */
  changed() {
    this.lay();
    this.scroll = Math.max(0, Math.min(this.scroll, this.total - (this.height - RULER - SHARES)));
    history.replaceState(null, "", this.pair ? this.pair.address : toAddress(this.state, this.about));
    this.redraw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), 15);
    this.isStale = true;
    if (this.pair && !this.isSecond) this.pair.follow();
  }

  /** The part of what is shown that the run has; of two runs one may begin or end earlier. */
  get withinRun() {
    return [Math.max(this.state.from, 0), Math.min(this.state.to, this.about.length + 1)];
  }

  async load() {
    const { severity } = this.state;
    const [from, to] = this.withinRun;
    if (from >= to) return this.showNothing();
    const rows = [0, ...this.visible];
    const width = this.width * ((to - from) / (this.state.to - this.state.from));
    const columns = Math.max(50, Math.min(4096, Math.round(width)));
    this.stop?.abort();
    this.stop = new AbortController();
    const mine = ++this.pending;
    const given = { from, to, rows: rows.join(), columns };
    if (severity) given.severity = severity;
    try {
      const answer = await this.ask("view", given, this.stop.signal);
      if (!answer || mine !== this.pending) return;
      this.trouble = "";
      this.take(answer, rows);
      if (this.state.counters) {
        const found = await this.ask("counters", { from, to, rows: this.visible.join(), columns }, this.stop.signal);
        if (!found || mine !== this.pending) return;
        this.takeCounters(found);
      }
      if (this.isSecond) {
        const found = await this.pair.difference(rows.slice(1), columns, this.stop.signal);
        if (mine !== this.pending) return;
        this.difference = found;
      }
    } catch (error) {
      this.trouble = error.message;
    }
    this.isStale = false;
    if (this.cursor?.waits) this.sayCursor();
    this.redraw();
  }

  showNothing() {
    this.stop?.abort();
    this.pending++;
    this.answer = this.cells = this.difference = null;
    this.isStale = false;
    this.redraw();
  }

  take(answer, rows) {
    this.answer = answer;
    this.rows = rows;
    this.cells = imageOf(this.about, answer, rows, this.through(this.state.region));
    const a = answer.arrays;
    if (answer.says.detail)
      for (let i = 0; i < a["slice.depth"].length; i++) {
        const location = a["slice.location"][i];
        if ((this.depthOf.get(location) ?? -1) < a["slice.depth"][i]) this.depthOf.set(location, a["slice.depth"][i]);
      }
    this.lay();
  }

  takeCounters(answer) {
    this.counters = answer;
    this.countersOf = new Map();
    answer.says.counters.forEach(({ location }, k) => {
      if (!this.countersOf.has(location)) this.countersOf.set(location, []);
      this.countersOf.get(location).push(k);
    });
    this.lay();
  }

  /** The value of a counter at a time; undefined before its first one. */
  counterAt(k, time) {
    const a = this.counters.arrays;
    let [low, high] = [a["counter.start"][k], a["counter.start"][k + 1]];
    const first = low;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (a["counter.time"][middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low > first ? a["counter.last"][low - 1] : undefined;
  }

  /** A counter with its unit, and the least and the largest value that is shown. */
  counterInWords(k) {
    const { name, unit, min, max } = this.counters.says.counters[k];
    return `${name}${unit && unit !== "#" ? ` [${unit}]` : ""}: ${min === null ? "no value" : `${value(min)} to ${value(max)}`}`;
  }

  /** Which call paths a region is on; null of none. */
  through(region) {
    if (region < 0) return null;
    const { parent, region: of } = this.about;
    const found = new Uint8Array(parent.length);
    // what is above a call path comes before it
    for (let i = 0; i < parent.length; i++) found[i] = of[i] === region || (parent[i] >= 0 && found[parent[i]]) ? 1 : 0;
    return found;
  }

  /** Whether nothing is asked for any more. */
  get isSettled() {
    return !this.isStale && !this.asked;
  }

  /** The share of each class of time of a row within what is shown. */
  sharesOf(row) {
    const r = this.rows?.indexOf(row) ?? -1;
    if (r < 0 || !this.answer) return null;
    const { ticks, edges } = this.answer.arrays;
    const [nClasses, nRows, nBins] = ticks.shape;
    const width = (edges[nBins] - edges[0]) * this.about.rows[row].n;
    return this.about.classes.map((_, c) => {
      let sum = 0;
      for (let b = 0; b < nBins; b++) sum += ticks[(c * nRows + r) * nBins + b];
      return nClasses ? sum / width : 0;
    });
  }

  setSeverity(id) {
    this.state.severity = id;
    this.changed();
  }

  // -- waits and causes ----------------------------------------------------------------------------------------------

  /** Select a wait, show it with the interval that it waits for, and say why. */
  async chooseWait(wait, { stays = false, keep = true } = {}) {
    if (keep && this.chosen) this.trail.push({ chosen: this.chosen, from: this.state.from, to: this.state.to });
    this.chosen = { kind: "wait", ...wait };
    this.explained = null;
    this.state.wait = { location: wait.location, begin: wait.begin, end: wait.end };
    this.isStale = true;
    const mine = this.chosen;
    // what an instance of a phase waits for lies in the run, not in another instance
    if (!this.about.folded) try {
      const found = await this.ask("cause", this.state.wait);
      if (mine !== this.chosen) return;
      this.explained = found.says;
      Object.assign(this.chosen, found.says.wait);
    } catch (error) {
      this.trouble = error.message;
    }
    const cause = this.explained?.cause;
    if (cause?.location !== undefined) this.reveal(cause.location);
    this.reveal(wait.location);
    if (!stays) this.show(Math.min(cause?.since ?? wait.begin, wait.begin), wait.end, wait);
    this.say(this.inWords());
    this.changed();
  }

  /** Select a slice. */
  chooseSlice(slice, { stays = false } = {}) {
    if (this.chosen) this.trail.push({ chosen: this.chosen, from: this.state.from, to: this.state.to });
    this.chosen = { kind: "slice", ...slice };
    this.explained = null;
    this.state.wait = null;
    this.reveal(slice.location);
    if (!stays) this.show(slice.begin, slice.end, slice);
    this.say(this.inWords());
    this.changed();
  }

  /** Show an interval with what is around it; one much longer than what is selected gives way to that. */
  show(begin, end, { begin: b, end: e }) {
    const first = Math.max(begin, e - 20 * (e - b));
    const margin = Math.max((end - first) * 0.15, 20);
    this.go(first - margin, end + margin);
  }

  /** Go to what caused the selected wait: another wait, or what most time was spent on. */
  async follow() {
    const cause = this.explained?.cause;
    if (cause?.next) await this.chooseWait(cause.next);
    else if (cause?.slice) {
      const [begin, end, depth, name] = cause.slice;
      this.chooseSlice({ location: cause.location, begin, end, depth, name });
    } else this.say("nothing is known that goes before");
  }

  async back() {
    const before = this.trail.pop();
    if (!before) return;
    if (before.chosen.kind === "wait") await this.chooseWait(before.chosen, { stays: true, keep: false });
    else Object.assign(this, { chosen: before.chosen, explained: null });
    this.go(before.from, before.to);
  }

  clear() {
    this.chosen = this.explained = this.range = null;
    if (this.cursor) this.cursor.anchor = null;
    this.trail = [];
    this.state.wait = null;
    if (this.state.region >= 0) this.highlight(-1);
    this.changed();
  }

  /** Go to the worst instance of a finding. */
  async goFinding(i) {
    const finding = this.about.findings[i];
    if (!finding) return;
    if (finding.instance) {
      await this.list(finding.instance.property);
      this.at = (this.instances ?? []).findIndex((w) => w.begin === finding.instance.begin && w.location === finding.instance.location);
      this.trail = [];
      await this.chooseWait(finding.instance, { keep: false });
    } else if (this.about.severities[finding.property]) {
      this.clear();
      this.setSeverity(finding.property);
      this.say(`${finding.title}: no single instance; rows show ${this.about.severities[finding.property].title}`);
    }
  }

  /** List the instances of a wait state, the worst first. */
  async list(number) {
    if (this.instanceOf === number) return;
    try {
      const found = await this.ask("instances", { number });
      this.instances = found.says.instances;
      this.instanceOf = number;
      this.at = -1;
    } catch (error) {
      this.trouble = error.message;
    }
    this.redraw();
  }

  /** Go to the next or the previous of the listed instances. */
  async step(by) {
    if (this.instanceOf < 0 || this.chosen?.property !== undefined && this.chosen.property !== this.instanceOf) await this.list(this.chosen?.property ?? Math.max(0, this.about.n_worst.findIndex((n) => n > 0)));
    if (!this.instances?.length) return;
    this.at = Math.max(0, Math.min(this.instances.length - 1, this.at + by));
    await this.chooseWait(this.instances[this.at], { keep: false });
    this.redraw();
  }

  /** Select the next wait or slice of the row in the direction of time. */
  async stepInRow(by) {
    const { location } = this.about.rows[this.state.row];
    const a = this.answer?.arrays;
    if (location < 0 || !a?.["waits.begin"]) return;
    const from = this.chosen?.location === location ? this.chosen.begin : by > 0 ? this.state.from - 1 : this.state.to;
    let best = -1;
    for (let i = 0; i < a["waits.begin"].length; i++) {
      const t = a["waits.begin"][i];
      if (a["waits.location"][i] !== location || (t - from) * by <= 0) continue;
      if (best < 0 || (t - a["waits.begin"][best]) * by < 0) best = i;
    }
    if (best >= 0) await this.chooseWait(this.waitAt(best), { stays: true });
  }

  // -- what is at a time of a row ----------------------------------------------------------------------------------------

  /** Whether single events of a row are drawn, not cells. */
  hasEvents(row) {
    return Boolean(this.answer?.says.detail) && this.about.rows[row].location >= 0 && !this.onlyCells;
  }

  /** Whether rows show a property, or the difference of two runs, also where single events could be drawn. */
  get onlyCells() {
    return Boolean(this.state.severity || (this.isSecond && this.pair.part));
  }

  /** The cell of a row at a time: its ends, shares in words, and the call path with most time of a location; null if there is none. */
  cellOf(row, time) {
    const r = this.rows?.indexOf(row) ?? -1;
    if (r < 0 || !this.answer) return null;
    const { edges, ticks, path, best } = this.answer.arrays;
    const [nClasses, nRows, nBins] = ticks.shape;
    if (!nClasses) return null;
    let b = 0;
    while (b < nBins - 1 && edges[b + 1] <= time) b++;
    const width = (edges[b + 1] - edges[b]) * this.about.rows[row].n;
    const words = this.about.titles.map((title, c) => [ticks[(c * nRows + r) * nBins + b] / width, title]).filter(([s]) => s >= 0.005);
    return {
      row,
      begin: edges[b],
      end: edges[b + 1],
      words: words.map(([s, title]) => `${title} ${percent(s)}`).join(", "),
      call_path: path[r * nBins + b],
      share: best[r * nBins + b] / width,
      ...this.differenceOf(row, time),
    };
  }

  /** The ends of the cell of the difference at a time of a row, and what it says; nothing where no difference is shown. */
  differenceOf(row, time) {
    const found = this.difference;
    const r = found?.rows.indexOf(row) ?? -1;
    if (r < 0) return {};
    const { edges, first, second } = found.arrays;
    const n = edges.length - 1;
    let b = 0;
    while (b < n - 1 && edges[b + 1] <= time) b++;
    const [a, z] = [first[r * n + b], second[r * n + b]];
    const title = this.pair.parts.find(([id]) => id === found.says.part)?.[1] ?? found.says.part;
    const by = `${z < a ? "" : "+"}${(100 * (z - a)).toFixed(1)}`;
    const words = Number.isNaN(a) ? `${title}: nothing to compare with` : `${title} ${by} points: B ${percent(z)}, A ${percent(a)}`;
    return { begin: edges[b], end: edges[b + 1], words };
  }

  sliceAt(i) {
    const a = this.answer.arrays;
    return Object.fromEntries(["location", "begin", "end", "depth", "name", "count", "busy"].map((name) => [name, a[`slice.${name}`][i]]));
  }

  /** Say what a wait, a slice or a cell is. */
  describe({ wait, slice, cell, counter, time }) {
    const { about } = this;
    if (counter !== undefined) {
      const found = this.counterAt(counter, time);
      return `${found === undefined ? "" : `${value(found)}\n`}${this.counterInWords(counter)}`;
    }
    if (wait !== undefined) {
      const w = this.waitAt(wait);
      const who = w.cause_location >= 0 ? `, for ${this.nameOf(w.cause_location)}` : "";
      return `${about.waits[w.property].title}\n${duration(about, w.end - w.begin)}${who}`;
    }
    if (slice !== undefined) {
      const s = this.sliceAt(slice);
      return s.count > 1 ? `${s.count} instances, ${duration(about, s.busy)} together` : `${shortened(about.regions[s.name])}\n${duration(about, s.end - s.begin)}`;
    }
    if (!cell) return "";
    return cell.words + (cell.call_path >= 0 ? `\nmost in ${shortened(about.regions[about.region[cell.call_path]])} ${percent(cell.share)}` : "");
  }

  /** Select a wait, a slice or a cell of a location; if it is none of these, select nothing, or say so if `stays`. */
  choose({ wait, slice, cell }, stays = false) {
    if (wait !== undefined) return this.chooseWait(this.waitAt(wait), { stays: true });
    if (slice !== undefined) return this.chooseSlice(this.sliceAt(slice), { stays: true });
    if (cell?.call_path >= 0) return this.chooseCell(cell);
    if (!stays) return this.clear();
    this.say("there is nothing to select at the cursor: rows of several locations have no call path");
  }

  // -- the cursor of the keyboard ------------------------------------------------------------------------------------------

  /** Show the cursor on the selected row: where something is selected, else in the middle. */
  startCursor() {
    const { from, to } = this.state;
    const { chosen } = this;
    this.cursor = { time: chosen && chosen.begin >= from && chosen.begin < to ? chosen.begin : Math.floor((from + to) / 2), anchor: null, waits: false };
    this.redraw();
  }

  endCursor() {
    this.cursor = null;
    this.say("the cursor over cells is off");
    this.redraw();
  }

  /** The times between which the cells of a row lie, or the ends of what is drawn of its events, in order. */
  edgesOf(row) {
    const a = this.answer?.arrays;
    if (!a) return [];
    if (!this.hasEvents(row)) return Array.from((this.difference ?? this.answer).arrays.edges);
    const { from, to } = this.state;
    const { location } = this.about.rows[row];
    const found = new Set([from, to]);
    for (const kind of ["slice", "waits"])
      for (let i = 0; i < a[`${kind}.begin`].length; i++) {
        if (a[`${kind}.location`][i] !== location) continue;
        for (const t of [a[`${kind}.begin`][i], a[`${kind}.end`][i]]) if (t > from && t < to) found.add(t);
      }
    return [...found].sort((p, q) => p - q);
  }

  /** Where the cursor is: the edges of its row, the number of the first of its cell, and the ends of the cell; null if it is nowhere. */
  get cursorCell() {
    const edges = this.cursor ? this.edgesOf(this.state.row) : [];
    if (edges.length < 2) return null;
    let k = 0;
    while (k < edges.length - 2 && edges[k + 1] <= this.cursor.time) k++;
    return { edges, k, begin: edges[k], end: edges[k + 1] };
  }

  /** Move the cursor by some cells; the range of time from where it was first is selected if `isExtended`. */
  moveCursor(by, isExtended = false) {
    const cell = this.cursorCell;
    if (!cell) return;
    const { edges, k } = cell;
    const { cursor, state, about } = this;
    if (isExtended) cursor.anchor ??= [cell.begin, cell.end];
    else cursor.anchor = null;
    const next = k + by;
    // beyond what is shown the next cell is not known yet
    if (next < 0) cursor.time = Math.max(edges[0] - 1, 0);
    else if (next > edges.length - 2) cursor.time = Math.min(edges[edges.length - 1], about.length);
    else cursor.time = edges[next];
    if (cursor.anchor) {
      const [begin, end] = next < 0 || next > edges.length - 2 ? [cursor.time, cursor.time + 1] : [edges[next], edges[next + 1]];
      const ends = [Math.max(Math.min(cursor.anchor[0], begin), 0), Math.min(Math.max(cursor.anchor[1], end), about.length + 1)];
      this.range = ends.map(Math.round);
    }
    const span = state.to - state.from;
    if (cursor.time < state.from) this.go(cursor.time - span * 0.2, cursor.time + span * 0.8);
    else if (cursor.time >= state.to) this.go(cursor.time - span * 0.8, cursor.time + span * 0.2);
    this.redraw();
  }

  /** What is at the cursor, as what is below the mouse. */
  atCursor() {
    const at = this.cursorCell;
    const { row } = this.state;
    if (!at) return {};
    if (!this.hasEvents(row)) return { cell: this.cellOf(row, (at.begin + at.end) / 2) };
    const a = this.answer.arrays;
    const { location } = this.about.rows[row];
    const holds = (kind, i) => a[`${kind}.location`][i] === location && a[`${kind}.begin`][i] <= at.begin && a[`${kind}.end`][i] >= at.end;
    for (let i = a["waits.begin"].length - 1; i >= 0; i--) if (holds("waits", i)) return { wait: i };
    let best = -1;
    for (let i = 0; i < a["slice.begin"].length; i++) if (holds("slice", i) && (best < 0 || a["slice.depth"][i] >= a["slice.depth"][best])) best = i;
    return best < 0 ? {} : { slice: best };
  }

  /** Say where the cursor is and what is there; if that is asked for still, when it has come. */
  sayCursor(key = "") {
    const { cursor, about, state } = this;
    cursor.waits = this.isStale;
    // what is selected says so itself
    if (this.isStale || key === "Enter") return;
    const cell = this.cursorCell;
    const span = state.to - state.from;
    const what = this.describe(this.atCursor()).replaceAll("\n", ", ") || "nothing is recorded";
    const words = [`${about.rows[state.row].label}, ${cell ? `${moment(about, cell.begin, span)}, ${duration(about, cell.end - cell.begin)}` : "no cell"}: ${what}`];
    if (cursor.anchor) words.push(`selected range: ${moment(about, this.range[0], span)} to ${moment(about, this.range[1], span)}, ${duration(about, this.range[1] - this.range[0])}`);
    if (key === "g") words.unshift("cursor over cells: arrows move it, Shift extends a range, Enter selects, Escape ends it");
    this.say(words.join("; "));
  }

  waitAt(i) {
    const a = this.answer.arrays;
    return Object.fromEntries(["begin", "end", "location", "property", "call_path", "cause_location", "cause_call_path", "cause_time"].map((name) => [name, a[`waits.${name}`][i]]));
  }

  /** Select a cell of the overview: a range of time on a row, with the call path that most of it is spent on. */
  chooseCell(cell) {
    if (this.chosen) this.trail.push({ chosen: this.chosen, from: this.state.from, to: this.state.to });
    this.chosen = { kind: "cell", ...cell };
    this.explained = null;
    this.state.wait = null;
    this.focusRow(cell.row);
    this.say(this.inWords());
  }

  /** Select the range of time of what is selected: of a wait the calls of both sides, and the interval that is waited for. */
  takeRange() {
    const { chosen, explained } = this;
    if (!chosen) return this.say("nothing is selected that has a range of time");
    const calls = [chosen.kind === "wait" ? this.callAt(chosen.location, chosen.begin, chosen.end) : chosen];
    const cause = explained?.cause;
    if (cause?.location !== undefined) calls.push({ begin: cause.since, end: this.callAt(cause.location, cause.until, cause.until).end });
    // a range ends before its second time: the end of a call is to be in it
    this.range = [Math.min(...calls.map((c) => c.begin)), Math.min(Math.max(...calls.map((c) => c.end)), this.about.length) + 1];
    this.redraw();
  }

  /** The innermost slice that is drawn around an interval, of those that touch it the last; where none is, the interval. */
  callAt(location, begin, end) {
    const a = this.answer?.arrays;
    let best = -1;
    for (let i = 0; i < (a?.["slice.begin"]?.length ?? 0); i++) {
      if (a["slice.location"][i] !== location || a["slice.begin"][i] > begin || a["slice.end"][i] < end) continue;
      const deeper = best < 0 ? 1 : a["slice.depth"][i] - a["slice.depth"][best];
      if (deeper > 0 || (deeper === 0 && a["slice.begin"][i] > a["slice.begin"][best])) best = i;
    }
    return best < 0 ? { begin, end } : { begin: a["slice.begin"][best], end: a["slice.end"][best] };
  }

  /** Let instances of a region stand out; of the one that does already, or of none, all are alike again. */
  highlight(region) {
    this.state.region = region === this.state.region ? -1 : (region ?? -1);
    if (this.answer) this.take(this.answer, this.rows);
    this.say(this.state.region < 0 ? "all regions are alike" : `${shortened(this.about.regions[this.state.region])} stands out`);
    this.changed();
  }

  /** The region of what is selected; undefined if there is none. */
  get chosenRegion() {
    const { chosen, about } = this;
    if (chosen?.kind === "slice") return chosen.name;
    return chosen?.call_path >= 0 ? about.region[chosen.call_path] : undefined;
  }

  inWords() {
    const { chosen, about, explained } = this;
    if (!chosen) return "";
    if (chosen.kind === "cell") {
      const where = chosen.call_path >= 0 ? `, most time in ${shortened(about.regions[about.region[chosen.call_path]])}` : "";
      return `${duration(about, chosen.end - chosen.begin)} of ${about.rows[chosen.row].label}${where}`;
    }
    const row = this.nameOf(chosen.location);
    if (chosen.kind === "slice") return `${shortened(about.regions[chosen.name] ?? "slice")} on ${row}`;
    const cause = explained?.cause;
    const who = cause?.location !== undefined ? `, waits for ${this.nameOf(cause.location)}` : "";
    return `${about.waits[chosen.property]?.title ?? "wait"} on ${row}${who}`;
  }
}
