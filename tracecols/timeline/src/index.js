// The page: rows, canvas, panels, mouse and keyboard.
import { draw, geometry, imageOf, RULER, SHARES } from "./draw.js";
import { asOptions, details, findings, folding, instances, legend, make, severities } from "./panels.js";
import { asCsv, asRows, asSvg, download } from "./save.js";
import { ask } from "./server.js";
import { foldAddress, fromAddress, timelineAddress, treesAddress } from "./state.js";
import { View } from "./view.js";
import { duration, moment, percent } from "./words.js";

const KEYS = [
  ["w s, + -, mouse wheel", "zoom in and out"],
  ["a d, arrows left right, drag", "earlier, later"],
  ["arrows up down", "the row above, below"],
  ["Space", "open or close a row; flames of a location"],
  ["e", "flames of all visible rows"],
  ["1 to 9, f", "go to the worst instance of a finding; of the first one"],
  ["Enter, Backspace", "to the cause of the selected wait; back"],
  ["n p", "next, previous of the listed instances"],
  [", .", "the wait before, after on this row"],
  ["c", "critical path: off, on, and all else dimmed"],
  ["0", "the whole run"],
  ["Shift and drag, or drag in the ruler", "select a range of time"],
  ["z", "zoom to the selected range"],
  ["x", "the range of time of what is selected"],
  ["r", "the trees of the selected range, or of what is shown, at what is selected"],
  ["i", "all instances of the selected region, or of a phase, laid one above the other"],
  ["h", "let instances of the selected region stand out; let all be alike"],
  ["v, b", "save what is shown as a picture (SVG), as a table (CSV)"],
  ["t", "dark or light"],
  ["Escape", "select nothing"],
  ["?", "these keys"],
];

const root = document.getElementById("timeline");
const kept = localStorage.getItem("tracecols-theme");
document.documentElement.dataset.theme = kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

async function start() {
  let found;
  try {
    found = await ask("about");
  } catch (error) {
    root.append(make("p", { class: "trouble", role: "alert" }, error.message));
    return;
  }
  const about = { ...found.says, ...found.arrays };
  if (about.folded) {
    root.classList.add("folded");
    about.name = `${about.name}: ${about.folded.phase}`;
    for (const row of about.rows) if (row.location >= 0) row.label = `${duration(about, about["fold.end"][row.location] - about["fold.begin"][row.location])}, ${row.label}`;
  }
  document.title = `${about.name} - timeline`;
  build(about);
}

function build(about) {
  const canvas = make("canvas", { class: "canvas", role: "img" });
  const labels = make("div", { class: "labels", role: "tree", "aria-label": "Rows", "data-all": about.rows[0].label, tabindex: 0 });
  const space = make("div", { class: "space" });
  const stage = make("div", { class: "stage" }, labels, canvas);
  const scroller = make("div", { class: "scroller" }, stage, space);
  const strip = make("canvas", { class: "strip", role: "img", "aria-label": "The whole run; the frame is what is shown" });
  const status = make("p", { class: "status", role: "status", "aria-live": "polite" });
  const tip = make("div", { class: "tip", hidden: true });
  const side = { findings: make("section", {}), details: make("section", { "aria-live": "polite" }), instances: make("section", {}) };
  const head = make("div", { class: "shown" });
  const note = make("span", { class: "note" });
  const help = make("dialog", { class: "help" }, make("h2", {}, "Keys"), make("dl", {}, ...KEYS.flatMap(([k, what]) => [make("dt", {}, k), make("dd", {}, what)])));
  const copy = make("button", { type: "button", class: "plain", onclick: () => copyRange() }, "copy --from --to");
  const picture = make("button", { type: "button", class: "plain", onclick: () => act("v"), title: "v" }, "save SVG");
  const table = make("button", { type: "button", class: "plain", onclick: () => act("b"), title: "b" }, "CSV");
  const trees = make("button", { type: "button", class: "plain", onclick: () => act("r"), title: "r: the trees of the selected range, or of what is shown" }, "trees");
  const key = make("div", {});
  const choose = make("label", { class: "choose" }, "rows show ");
  root.append(
    make(
      "header",
      {},
      make("h1", {}, about.name),
      make("span", { class: "muted" }, about.folded ? "phases folded" : `${about.n_events.toLocaleString("en")} events, ${duration(about, about.length)}`),
      about.folded ? null : choose,
      make("span", { class: "gap" }),
      about.folded ? null : make("button", { type: "button", class: "plain", onclick: () => act("i"), title: "i: all instances of the selected region, or of a phase, laid one above the other" }, "phases"),
      make("button", { type: "button", class: "plain", onclick: () => act("c"), title: "c", hidden: !about.has_path }, "critical path"),
      make("button", { type: "button", class: "plain", onclick: () => act("t"), title: "t" }, "dark/light"),
      make("button", { type: "button", class: "plain", onclick: () => help.showModal(), title: "?" }, "keys"),
    ),
    strip,
    make(
      "main",
      {},
      make("div", { class: "left" }, make("div", { class: "bar" }, head, trees, about.folded ? null : copy, picture, table, note, make("span", { class: "gap" }), key), scroller),
      make(
        "aside",
        {},
        make("h2", {}, about.folded ? "Phase" : "Findings"),
        side.findings,
        make("h2", {}, "Selected"),
        side.details,
        ...(about.folded ? [] : [make("h2", {}, "Instances"), side.instances]),
      ),
    ),
    status,
    tip,
    help,
  );

  // the trees come back to this tab
  const token = location.pathname.split("/")[1];
  name = `${about.folded ? "fold" : "timeline"}-${token}`;
  let drawn = { slices: [], waits: [] };
  let frame = 0;
  const view = new View(
    about,
    () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        paint();
      });
    },
    (text) => {
      status.textContent = text;
    },
  );
  root.view = view;
  side.findings.append(about.folded ? folding(view) : findings(view));

  // -- drawing -------------------------------------------------------------------------------------------------------

  function size(element, width, height) {
    const ratio = devicePixelRatio || 1;
    if (element.width !== Math.round(width * ratio) || element.height !== Math.round(height * ratio)) {
      element.width = Math.round(width * ratio);
      element.height = Math.round(height * ratio);
      element.style.setProperty("width", `${width}px`);
      element.style.setProperty("height", `${height}px`);
    }
    const g = element.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    return g;
  }

  function measure() {
    view.width = Math.max(120, scroller.clientWidth - labels.offsetWidth);
    view.height = Math.max(120, scroller.clientHeight);
    stage.style.setProperty("height", `${view.height}px`);
    view.changed();
  }

  function paint() {
    const began = performance.now();
    space.style.setProperty("height", `${Math.max(0, view.total + RULER + SHARES - view.height)}px`);
    if (Math.abs(scroller.scrollTop - view.scroll) > 1) scroller.scrollTop = view.scroll;
    drawn = draw(size(canvas, view.width, view.height), view);
    view.drawn = drawn;
    paintStrip();
    paintLabels();
    paintPanels();
    view.took = performance.now() - began;
  }

  function paintStrip() {
    const width = root.clientWidth - 16;
    const g = size(strip, width, 30);
    g.clearRect(0, 0, width, 30);
    if (view.strip) {
      g.imageSmoothingEnabled = true;
      g.drawImage(view.strip.images.get(0), 0, 0, width, 30);
    }
    const scale = width / (about.length + 1);
    const [x, w] = [view.state.from * scale, Math.max((view.state.to - view.state.from) * scale, 3)];
    const look = getComputedStyle(document.documentElement);
    g.fillStyle = look.getPropertyValue("--veil");
    g.fillRect(0, 0, x, 30);
    g.fillRect(x + w, 0, width, 30);
    g.strokeStyle = look.getPropertyValue("--accent");
    g.lineWidth = 2;
    g.strokeRect(x + 1, 1, Math.max(w - 2, 1), 28);
  }

  const lines = new Map();

  function paintLabels() {
    const at = geometry(view);
    const shown = new Set(view.visible);
    for (const [row, line] of lines)
      if (!shown.has(row)) {
        line.remove();
        lines.delete(row);
      }
    for (const { row, level, height } of view.layout) {
      if (!shown.has(row)) continue;
      const given = about.rows[row];
      if (!lines.has(row)) {
        const line = make("div", { class: "label", role: "treeitem", id: `row-${row}`, onclick: () => view.focusRow(row) });
        const twisty = make("span", { class: "twisty", "aria-hidden": "true" });
        twisty.addEventListener("click", (event) => {
          event.stopPropagation();
          view.toggle(row);
        });
        line.append(twisty, make("span", { class: "name" }, given.label));
        line.title = given.label;
        labels.append(line);
        lines.set(row, line);
      }
      const line = lines.get(row);
      const isOpen = given.location >= 0 ? view.state.flames.has(row) : !view.state.closed.has(row);
      line.style.setProperty("transform", `translateY(${at.row(row).top}px)`);
      line.style.setProperty("height", `${height}px`);
      line.style.setProperty("padding-left", `${4 + 10 * level}px`);
      line.firstChild.textContent = isOpen ? "▾" : "▸";
      line.setAttribute("aria-level", level + 1);
      line.setAttribute("aria-expanded", String(isOpen));
      line.setAttribute("aria-selected", String(row === view.state.row));
      const shares = view.sharesOf(row);
      const words = shares ? about.titles.map((t, c) => [shares[c], t]).filter(([s]) => s >= 0.005).sort((p, q) => q[0] - p[0]).map(([s, t]) => `${t} ${percent(s)}`) : [];
      line.setAttribute("aria-label", [given.label, ...words].join(", "));
    }
    labels.setAttribute("aria-activedescendant", `row-${view.state.row}`);
  }

  const before = {};

  /** Fill a part of the page, if what it shows is another. */
  function fill(element, name, content, ...of) {
    const same = before[name]?.length === of.length && of.every((value, i) => value === before[name][i]);
    if (same) return;
    before[name] = of;
    element.replaceChildren(content());
  }

  function paintPanels() {
    const { state, answer, trouble } = view;
    fill(side.details, "details", () => details(view), view.chosen, view.explained, state.from, state.to);
    fill(side.instances, "instances", () => instances(view), view.instances, view.at);
    fill(key, "legend", () => legend(view), answer, document.documentElement.dataset.theme);
    fill(choose, "severities", () => make("span", {}, "rows show ", severities(view)), state.severity);
    const [from, to] = view.range ?? [state.from, state.to];
    head.textContent = `${moment(about, from, to - from)} to ${moment(about, to, to - from)}, ${duration(about, to - from)}`;
    const said = [];
    if (trouble) said.push(trouble);
    else if (answer && !answer.says.detail) said.push("cells of the overview; zoom in to see events");
    else if (answer?.says.left_out.length) said.push(`too many to draw: ${answer.says.left_out.map((k) => `${answer.says.n[k].toLocaleString("en")} ${k}`).join(", ")}`);
    if (about.notes.length && !trouble) said.push(...about.notes);
    note.textContent = said.join("; ");
    note.classList.toggle("trouble", Boolean(trouble));
    canvas.setAttribute("aria-label", `Timeline from ${head.textContent}; ${view.inWords() || "nothing is selected"}`);
  }

  // -- mouse ---------------------------------------------------------------------------------------------------------

  const local = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const inside = (x, y, b) => x >= b.x && x <= b.x + b.w && y >= b.top && y <= b.top + b.h;
  const topmost = (x, y) => {
    const wait = drawn.waits.findLast((b) => inside(x, y, b));
    if (wait) return { wait: wait.i };
    const slice = drawn.slices.filter((b) => inside(x, y, b)).sort((p, q) => q.depth - p.depth)[0];
    return slice ? { slice: slice.i } : {};
  };
  const sliceAt = (i) => {
    const a = view.answer.arrays;
    return Object.fromEntries(["location", "begin", "end", "depth", "name", "count", "busy"].map((name) => [name, a[`slice.${name}`][i]]));
  };

  canvas.addEventListener(
    "wheel",
    (event) => {
      if (event.altKey) return;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan((event.deltaX || event.deltaY) / view.width);
      else view.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), geometry(view).ticks(local(event)[0]));
    },
    { passive: false },
  );
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const [x, y] = local(event);
    canvas.setPointerCapture(event.pointerId);
    drag = { x, y, from: view.state.from, to: view.state.to, scroll: view.scroll, selects: event.shiftKey || y < RULER, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = local(event);
    if (!drag) return hover(x, y, event);
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 4) drag.moved = true;
    if (!drag.moved) return;
    tip.hidden = true;
    const at = geometry(view);
    if (drag.selects) {
      view.range = [at.ticks(drag.x), at.ticks(x)].map((t) => Math.round(Math.min(Math.max(t, 0), about.length + 1))).sort((p, q) => p - q);
      view.redraw();
    } else {
      const by = ((x - drag.x) / view.width) * (drag.to - drag.from);
      const first = Math.min(Math.max(drag.from - by, 0), about.length + 1 - (drag.to - drag.from));
      view.scroll = drag.scroll - (y - drag.y);
      view.go(first, first + drag.to - drag.from);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    const [x, y] = local(event);
    const was = drag;
    drag = null;
    if (!was || was.moved) return;
    const { wait, slice } = topmost(x, y);
    if (wait !== undefined) view.chooseWait(view.waitAt(wait), { stays: true });
    else if (slice !== undefined) view.chooseSlice(sliceAt(slice), { stays: true });
    else {
      const cell = view.answer && y > RULER + SHARES ? cellAt(x, y) : null;
      if (cell?.call_path >= 0) view.chooseCell(cell);
      else view.clear();
    }
  });
  canvas.addEventListener("dblclick", (event) => view.zoom(0.25, geometry(view).ticks(local(event)[0])));
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });

  function hover(x, y, event) {
    const { wait, slice } = topmost(x, y);
    const a = view.answer?.arrays;
    let text = "";
    const cell = wait === undefined && slice === undefined && a ? cellAt(x, y) : null;
    if (wait !== undefined) {
      const w = view.waitAt(wait);
      text = `${about.waits[w.property].title}\n${duration(about, w.end - w.begin)}`;
      if (w.cause_location >= 0) text += `, for ${view.nameOf(w.cause_location)}`;
    } else if (slice !== undefined) {
      const s = sliceAt(slice);
      text = s.count > 1 ? `${s.count} instances, ${duration(about, s.busy)} together` : `${about.regions[s.name]}\n${duration(about, s.end - s.begin)}`;
    } else if (cell) text = cell.words + (cell.call_path >= 0 ? `\nmost in ${about.regions[about.region[cell.call_path]]} ${percent(cell.share)}` : "");
    tip.hidden = !text;
    tip.textContent = text;
    tip.style.setProperty("left", `${Math.min(event.clientX + 12, innerWidth - 260)}px`);
    tip.style.setProperty("top", `${Math.min(event.clientY + 14, innerHeight - 60)}px`);
  }

  /** The cell at a position: its row, ends, shares in words, and the call path with most time of a location; null where none is. */
  function cellAt(x, y) {
    const at = geometry(view);
    const line = y < RULER + SHARES ? null : view.layout.find(({ row }) => y >= at.row(row).top && y < at.row(row).top + at.row(row).height);
    const row = line ? line.row : y > RULER && y < RULER + SHARES ? 0 : -1;
    const r = row < 0 ? -1 : view.rows.indexOf(row);
    const { edges, ticks, path, best } = view.answer.arrays;
    const [nClasses, nRows, nBins] = ticks.shape;
    const t = at.ticks(x);
    let b = 0;
    while (b < nBins - 1 && edges[b + 1] <= t) b++;
    if (r < 0 || !nClasses) return null;
    const width = (edges[b + 1] - edges[b]) * about.rows[row].n;
    const words = about.titles.map((title, c) => [ticks[(c * nRows + r) * nBins + b] / width, title]).filter(([s]) => s >= 0.005);
    return {
      row,
      begin: edges[b],
      end: edges[b + 1],
      words: words.map(([s, title]) => `${title} ${percent(s)}`).join(", "),
      call_path: path[r * nBins + b],
      share: best[r * nBins + b] / width,
    };
  }

  const toStrip = (event) => {
    const box = strip.getBoundingClientRect();
    const t = ((event.clientX - box.left) / box.width) * (about.length + 1);
    const span = view.state.to - view.state.from;
    const first = Math.min(Math.max(t - span / 2, 0), about.length + 1 - span);
    view.go(first, first + span);
  };
  strip.addEventListener("pointerdown", (event) => {
    strip.setPointerCapture(event.pointerId);
    toStrip(event);
  });
  strip.addEventListener("pointermove", (event) => event.buttons && toStrip(event));
  scroller.addEventListener("scroll", () => {
    if (Math.abs(view.scroll - scroller.scrollTop) <= 1) return;
    view.scroll = scroller.scrollTop;
    view.changed();
  });

  // -- keyboard ------------------------------------------------------------------------------------------------------

  async function copyRange() {
    const text = asOptions(view);
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = `copied: ${text}`;
    } catch {
      status.textContent = text;
    }
  }

  function save(ending, type, make) {
    if (!view.answer || view.isStale) {
      status.textContent = "wait until all is shown, then save it";
      return;
    }
    status.textContent = `saved ${download(view, ending, type, make())}`;
  }

  const ACTIONS = {
    v: () => save("svg", "image/svg+xml", () => asSvg(view)),
    b: () => save("csv", "text/csv", () => asCsv(asRows(view))),
    w: () => view.zoom(0.6),
    s: () => view.zoom(1 / 0.6),
    "+": () => view.zoom(0.6),
    "=": () => view.zoom(0.6),
    "-": () => view.zoom(1 / 0.6),
    a: () => view.pan(-0.2),
    d: () => view.pan(0.2),
    ArrowLeft: () => view.pan(-0.1),
    ArrowRight: () => view.pan(0.1),
    ArrowUp: () => view.moveRow(-1),
    ArrowDown: () => view.moveRow(1),
    PageUp: () => view.moveRow(-20),
    PageDown: () => view.moveRow(20),
    Home: () => view.moveRow(-1e9),
    End: () => view.moveRow(1e9),
    " ": () => view.toggle(view.state.row),
    0: () => view.whole(),
    f: () => view.goFinding(0),
    Enter: () => (about.folded ? open(timelineAddress(view), `timeline-${token}`) : view.follow()),
    Backspace: () => view.back(),
    n: () => view.step(1),
    p: () => view.step(-1),
    ".": () => view.stepInRow(1),
    ",": () => view.stepInRow(-1),
    x: () => view.takeRange(),
    h: () => view.highlight(view.chosenRegion),
    r() {
      const [from, to] = view.range ?? [view.state.from, view.state.to];
      status.textContent = `the trees of ${duration(about, to - from)} are in another tab; a long range takes as long as its analysis`;
      open(treesAddress(view), `trees-${token}`);
    },
    i() {
      if (about.folded) return;
      status.textContent = "the instances are in another tab; a trace is scanned when they are looked for first";
      open(foldAddress(view), `fold-${token}`);
    },
    z: () => view.range && view.go(...view.range),
    Escape: () => view.clear(),
    "?": () => help.showModal(),
    c() {
      view.state.path = about.has_path ? (view.state.path + 1) % 3 : 0;
      status.textContent = ["critical path is not drawn", "critical path is drawn", "all but the critical path is dimmed"][view.state.path];
      view.changed();
    },
    e() {
      const rows = view.visible.filter((row) => about.rows[row].location >= 0);
      const all = rows.every((row) => view.state.flames.has(row));
      for (const row of rows) view.state.flames[all ? "delete" : "add"](row);
      view.changed();
    },
    t() {
      const { dataset } = document.documentElement;
      dataset.theme = dataset.theme === "dark" ? "light" : "dark";
      localStorage.setItem("tracecols-theme", dataset.theme);
      recolour();
    },
  };
  for (let i = 1; i <= 9; i++) ACTIONS[i] = () => view.goFinding(i - 1);
  const act = (name) => ACTIONS[name]?.();

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const { target } = event;
    if (target.tagName === "SELECT" || target.tagName === "INPUT") return;
    if (target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
    const name = ACTIONS[event.key] ? event.key : event.key.toLowerCase();
    if (!ACTIONS[name]) return;
    event.preventDefault();
    act(name);
  });
  addEventListener("hashchange", () => {
    view.state = fromAddress(location.hash, about);
    if (view.answer) view.take(view.answer, view.rows);
    view.focusRow(view.state.row);
    openWait();
    view.changed();
  });

  const openWait = () => {
    const { wait } = view.state;
    if (wait) view.chooseWait(wait, { stays: true, keep: false });
  };

  async function recolour() {
    if (view.answer) view.take(view.answer, view.rows);
    await loadStrip();
    view.redraw();
  }

  async function loadStrip() {
    strip.answer ??= await ask("view", { from: 0, to: about.length + 1, rows: "0", columns: 1400, page: "" }).catch(() => null);
    if (strip.answer) view.strip = imageOf(about, strip.answer, [0]);
  }

  new ResizeObserver(measure).observe(scroller);
  loadStrip().then(() => {
    measure();
    openWait();
  });
  labels.focus({ preventScroll: true });
}

start();
