// The page: rows, canvas, panels, mouse and keyboard.
import { imageOf } from "./draw.js";
import { makePane, size } from "./pane.js";
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
  ["g", "a cursor over cells, or over instances of regions: on and off; while it is on:"],
  ["arrows", "the cell or instance earlier, later; the row above, below"],
  ["j l", "ten cells earlier, later"],
  ["Shift and arrows left right", "extend a range of time from the cursor"],
  ["Enter", "select what is at the cursor, as a click does"],
  ["Escape", "end it"],
  ["c", "critical path: off, on, and all else dimmed"],
  ["0", "the whole run"],
  ["Shift and drag, or drag in the ruler", "select a range of time"],
  ["z", "zoom to the selected range"],
  ["x", "the range of time of what is selected"],
  ["r", "the trees of the selected range, or of what is shown, at what is selected"],
  ["i", "all instances of the selected region, or of a phase, laid one above the other"],
  ["k", "counters below the rows of their locations"],
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
  const strip = make("canvas", { class: "strip", role: "img", "aria-label": "The whole run; the frame is what is shown" });
  const status = make("p", { class: "status", role: "status", "aria-live": "polite" });
  const tip = make("div", { class: "tip", hidden: true });
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
  const pane = makePane(view, tip);
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
      make("button", { type: "button", class: "plain", onclick: () => act("k"), title: "k", hidden: !about.has_counters }, "counters"),
      make("button", { type: "button", class: "plain", onclick: () => act("c"), title: "c", hidden: !about.has_path }, "critical path"),
      make("button", { type: "button", class: "plain", onclick: () => act("t"), title: "t" }, "dark/light"),
      make("button", { type: "button", class: "plain", onclick: () => help.showModal(), title: "?" }, "keys"),
    ),
    strip,
    make(
      "main",
      {},
      make("div", { class: "left" }, make("div", { class: "bar" }, head, trees, about.folded ? null : copy, picture, table, note, make("span", { class: "gap" }), key), pane.element),
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
  root.view = view;
  side.findings.append(about.folded ? folding(view) : findings(view));

  // -- drawing -------------------------------------------------------------------------------------------------------

  function paint() {
    const began = performance.now();
    pane.paint();
    paintStrip();
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
    if (state.counters && view.counters?.says.is_left_out) said.push("too many values of counters to be drawn: fewer rows show them");
    if (state.counters && view.counters?.says.n_left_out) said.push(`${view.counters.says.n_left_out.toLocaleString("en")} values of counters are no numbers`);
    if (about.notes.length && !trouble) said.push(...about.notes);
    note.textContent = said.join("; ");
    note.classList.toggle("trouble", Boolean(trouble));
    pane.canvas.setAttribute("aria-label", `Timeline from ${head.textContent}; ${view.inWords() || "nothing is selected"}`);
  }

  // -- the strip -----------------------------------------------------------------------------------------------------

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
    g() {
      pane.labels.focus({ preventScroll: true });
      if (view.cursor) view.endCursor();
      else view.startCursor();
    },
    k() {
      if (about.has_counters) view.state.counters = !view.state.counters;
      status.textContent = about.has_counters ? `counters are ${view.state.counters ? "" : "not "}shown` : "this trace has no counters";
      view.changed();
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
  /** What keys do while there is a cursor over cells, in the place of what they do otherwise. */
  const AT_CURSOR = {
    ArrowLeft: (extends_) => view.moveCursor(-1, extends_),
    ArrowRight: (extends_) => view.moveCursor(1, extends_),
    ArrowUp: () => view.moveRow(-1),
    ArrowDown: () => view.moveRow(1),
    j: (extends_) => view.moveCursor(-10, extends_),
    l: (extends_) => view.moveCursor(10, extends_),
    Enter: () => view.choose(view.atCursor(), true),
    Escape: () => view.endCursor(),
  };
  for (let i = 1; i <= 9; i++) ACTIONS[i] = () => view.goFinding(i - 1);
  const act = (name, isShifted = false) => {
    if (view.cursor && AT_CURSOR[name]) AT_CURSOR[name](isShifted);
    else ACTIONS[name]?.();
    if (view.cursor) view.sayCursor(name);
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const { target } = event;
    if (target.tagName === "SELECT" || target.tagName === "INPUT") return;
    if (target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
    const isKnown = (key) => ACTIONS[key] || (view.cursor && AT_CURSOR[key]);
    const name = isKnown(event.key) ? event.key : event.key.toLowerCase();
    if (!isKnown(name)) return;
    event.preventDefault();
    act(name, event.shiftKey);
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

  loadStrip().then(() => {
    pane.measure();
    openWait();
  });
  pane.labels.focus({ preventScroll: true });
}

start();
