// The page: rows, canvas, panels, mouse and keyboard.
import { COMPARED, Pair } from "./compare.js";
import { imageOf, imageOfDifference } from "./draw.js";
import { makePane, size } from "./pane.js";
import { aligning, asOptions, details, findings, folding, instances, legend, legendOfDifference, make, severities } from "./panels.js";
import { asCsv, asRows, asSvg, download } from "./save.js";
import { restOf } from "./rest.js";
import { ask } from "./server.js";
import { foldAddress, fromAddress, timelineAddress, treesAddress } from "./state.js";
import { View } from "./view.js";
import { WAITING, waitForTrees } from "./waiting.js";
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
  ["o", "of two runs: the other one, so that keys act on it"],
  ["u y", "align two runs at the instance before, after"],
  ["q", "the difference of two runs: of the next class of time, or none"],
  ["h", "let instances of the selected region stand out; let all be alike"],
  ["v, b", "save what is shown as a picture (SVG), as a table (CSV)"],
  ["t", "dark or light"],
  ["Escape", "select nothing"],
  ["?", "these keys"],
];

const root = document.getElementById("timeline");
/** The colours that were chosen; the trees, which keep them in the same place, may have left them to the system. */
function theme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  try {
    const kept = localStorage.getItem("tracecols-theme");
    return kept === "dark" || kept === "light" ? kept : system;
  } catch {
    // the browser may store nothing
    return system;
  }
}
document.documentElement.dataset.theme = theme();

async function start() {
  const abouts = [];
  let pair = null;
  try {
    for (const base of COMPARED ? ["", "b/"] : [""]) {
      const { says, arrays } = await ask("about", {}, undefined, base);
      abouts.push({ ...says, ...arrays, base, span: [0, says.length + 1] });
    }
    if (COMPARED) pair = await paired(abouts);
  } catch (error) {
    root.append(make("p", { class: "trouble", role: "alert" }, error.message));
    return;
  }
  const [about] = abouts;
  if (about.folded) {
    root.classList.add("folded");
    about.name = `${about.name}: ${about.folded.phase}`;
    for (const row of about.rows) if (row.location >= 0) row.label = `${duration(about, about["fold.end"][row.location] - about["fold.begin"][row.location])}, ${row.label}`;
  }
  document.title = `${abouts.map(({ name: of }) => of).join(" and ")} - timeline`;
  build(abouts, pair);
}

/** Both runs, aligned as the address says, or at the beginning of the focus if that is not possible. */
async function paired(abouts) {
  const pair = new Pair(abouts, location.hash);
  try {
    await pair.align(pair.wanted);
  } catch (error) {
    await pair.align({ by: "focus", of: "", k: 0 });
    pair.trouble = error.message;
  }
  return pair;
}

function build(abouts, pair) {
  const strip = make("canvas", { class: "strip", role: "img", "aria-label": "The whole run; the frame is what is shown" });
  const status = make("p", { class: "status", role: "status", "aria-live": "polite" });
  const tip = make("div", { class: "tip", hidden: true });
  let frame = 0;
  const redraw = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      paint();
    });
  };
  const say = (text) => {
    status.textContent = text;
  };
  const views = abouts.map((of, i) => new View(of, redraw, say, { hash: pair ? pair.hashes[i] : location.hash, pair, isSecond: i === 1 }));
  if (pair) pair.views = views;
  const panes = views.map((of) => makePane(of, tip));
  // the run that keys act on, and whose findings and selection are shown
  let [view] = views;
  let [pane] = panes;
  let [about] = abouts;
  const side = { findings: make("section", {}), details: make("section", { "aria-live": "polite" }), instances: make("section", {}) };
  const head = make("div", { class: "shown" });
  const note = make("span", { class: "note" });
  const help = make("dialog", { class: "help" }, make("h2", {}, "Keys"), make("dl", {}, ...KEYS.flatMap(([k, what]) => [make("dt", {}, k), make("dd", {}, what)])));
  const copy = make("button", { type: "button", class: "plain", onclick: () => copyRange() }, "copy --from --to");
  const picture = make("button", { type: "button", class: "plain", onclick: () => act("v"), title: "v" }, "save SVG");
  const table = make("button", { type: "button", class: "plain", onclick: () => act("b"), title: "b" }, "CSV");
  const trees = make("button", { type: "button", class: "plain", onclick: () => act("r"), title: "r: the trees of the selected range, or of what is shown" }, "trees");
  const key = make("div", {});
  const aligned = make("div", {});
  const choose = make("label", { class: "choose" }, "rows show ");
  root.append(
    make(
      "header",
      {},
      make("h1", {}, pair ? `A: ${abouts[0].name}, B: ${abouts[1].name}` : about.name),
      pair ? null : make("span", { class: "muted" }, about.folded ? "phases folded" : `${about.n_events.toLocaleString("en")} events, ${duration(about, about.length)}`),
      about.folded ? null : choose,
      pair ? aligned : null,
      make("span", { class: "gap" }),
      about.folded ? null : make("button", { type: "button", class: "plain", onclick: () => act("i"), title: "i: all instances of the selected region, or of a phase, laid one above the other" }, "phases"),
      make("button", { type: "button", class: "plain", onclick: () => act("k"), title: "k", hidden: !abouts.some((of) => of.has_counters) }, "counters"),
      make("button", { type: "button", class: "plain", onclick: () => act("c"), title: "c", hidden: !abouts.some((of) => of.has_path) }, "critical path"),
      make("button", { type: "button", class: "plain", onclick: () => act("t"), title: "t" }, "dark/light"),
      make("button", { type: "button", class: "plain", onclick: () => help.showModal(), title: "?" }, "keys"),
    ),
    strip,
    make(
      "main",
      {},
      make("div", { class: "left" }, make("div", { class: "bar" }, head, trees, about.folded ? null : copy, picture, table, note, make("span", { class: "gap" }), key), ...panes.map(({ element }) => element)),
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
  const tab = location.pathname.split("/").slice(1, -1).join("-");
  const kind = pair ? "compare" : about.folded ? "fold" : "timeline";
  name = `${kind}-${tab}`;
  root.views = views;

  /** Let keys act on a run. */
  function activate(k) {
    if (views[k].cursor === null && view.cursor) {
      const time = k ? pair.toSecond(view.cursor.time) : pair.toFirst(view.cursor.time);
      [views[k].cursor, view.cursor] = [{ time, anchor: null, waits: false }, null];
    }
    [view, pane, about] = [views[k], panes[k], abouts[k]];
    root.view = view;
    side.findings.replaceChildren(about.folded ? folding(view) : about.is_first ? restOf() : findings(view));
    if (pair) panes.forEach(({ element }, i) => element.classList.toggle("active", i === k));
    redraw();
  }
  activate(0);
  if (pair) panes.forEach(({ element }, i) => ["focusin", "pointerdown"].forEach((event) => element.addEventListener(event, () => view === views[i] || activate(i))));

  // -- drawing -------------------------------------------------------------------------------------------------------

  function paint() {
    const began = performance.now();
    for (const of of panes) of.paint();
    paintStrip();
    paintPanels();
    view.took = performance.now() - began;
  }

  function paintStrip() {
    const width = root.clientWidth - 16;
    const g = size(strip, width, 30);
    g.clearRect(0, 0, width, 30);
    g.imageSmoothingEnabled = true;
    const [begin, end] = abouts[0].span;
    const scale = width / (end - begin);
    const height = 30 / views.length;
    views.forEach(({ strip: image }, i) => {
      if (!image) return;
      const [left, right] = [image.from, image.to].map((t) => ((i ? pair.toFirst(t) : t) - begin) * scale);
      g.drawImage(image.images.get(0), left, i * height, right - left, height - i);
    });
    const { state } = views[0];
    const [x, w] = [(state.from - begin) * scale, Math.max((state.to - state.from) * scale, 3)];
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
    fill(side.details, "details", () => details(view), view, view.chosen, view.explained, state.from, state.to);
    fill(side.instances, "instances", () => instances(view), view, view.instances, view.at);
    fill(key, "legend", () => make("div", {}, legend(view), views[1]?.difference ? legendOfDifference(views[1]) : null), view, answer, views[1]?.difference, document.documentElement.dataset.theme);
    fill(choose, "severities", () => make("span", {}, "rows show ", severities(view)), view, state.severity);
    if (pair) fill(aligned, "aligned", () => aligning(pair, alignAt, subtract), pair.found, pair.part);
    const [from, to] = view.range ?? [state.from, state.to];
    head.textContent = `${moment(about, from, to - from)} to ${moment(about, to, to - from)}, ${duration(about, to - from)}`;
    const said = [];
    if (pair?.trouble) said.push(pair.trouble);
    if (trouble) said.push(trouble);
    else if (answer && !answer.says.detail) said.push("cells of the overview; zoom in to see events");
    else if (answer?.says.left_out.length) said.push(`too many to draw: ${answer.says.left_out.map((k) => `${answer.says.n[k].toLocaleString("en")} ${k}`).join(", ")}`);
    if (state.counters && view.counters?.says.n_left_out) said.push(`${view.counters.says.n_left_out.toLocaleString("en")} values of counters are no numbers`);
    if (about.notes.length && !trouble) said.push(...about.notes);
    note.textContent = said.join("; ");
    note.classList.toggle("trouble", Boolean(trouble || pair?.trouble));
    pane.canvas.setAttribute("aria-label", `Timeline ${pair ? `of ${about.name} ` : ""}from ${head.textContent}; ${view.inWords() || "nothing is selected"}`);
  }

  // -- the strip -----------------------------------------------------------------------------------------------------

  const toStrip = (event) => {
    const box = strip.getBoundingClientRect();
    const [begin, end] = abouts[0].span;
    const t = begin + ((event.clientX - box.left) / box.width) * (end - begin);
    const { from, to } = views[0].state;
    views[0].go(t - (to - from) / 2, t + (to - from) / 2);
  };
  strip.addEventListener("pointerdown", (event) => {
    strip.setPointerCapture(event.pointerId);
    toStrip(event);
  });
  strip.addEventListener("pointermove", (event) => event.buttons && toStrip(event));

  // -- two runs ------------------------------------------------------------------------------------------------------

  /** Align the runs anew; what is zoomed in shows where they are aligned. */
  async function alignAt(wanted) {
    const [{ state, about: of }] = views;
    const span = state.to - state.from;
    const isWhole = span === of.span[1] - of.span[0];
    pair.trouble = "";
    say("the runs are aligned; instances are looked for by a scan of both traces");
    try {
      await pair.align(wanted);
    } catch (error) {
      pair.trouble = error.message;
      say(error.message);
      // the controls show what is still so
      pair.found = { ...pair.found };
      return redraw();
    }
    const { way, phase, k, first } = pair.found;
    say(way === "phase" ? `aligned at instance ${k} of ${phase}` : `aligned at ${way === "focus" ? "the beginning of the focus" : "the first event"}`);
    if (isWhole) views[0].whole();
    else views[0].go(first - span * 0.1, first + span * 0.9);
    pane.labels.focus({ preventScroll: true });
  }

  function subtract(part) {
    pair.part = part;
    say(part ? `rows of B show B minus A: ${pair.parts.find(([id]) => id === part)[1]}` : "no difference is shown");
    views[1].changed();
    pane.labels.focus({ preventScroll: true });
  }

  // -- keyboard ------------------------------------------------------------------------------------------------------

  // after a click with the mouse, Enter and Space act on the timeline, not on the button once more
  root.addEventListener("click", ({ detail, target }) => detail && target.closest("button") && pane.labels.focus({ preventScroll: true }));

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
    Enter: () => (about.folded ? open(timelineAddress(view), `timeline-${tab}`) : view.follow()),
    Backspace: () => view.back(),
    n: () => view.step(1),
    p: () => view.step(-1),
    ".": () => view.stepInRow(1),
    ",": () => view.stepInRow(-1),
    x: () => view.takeRange(),
    h: () => view.highlight(view.chosenRegion),
    r() {
      const [from, to] = view.range ?? [view.state.from, view.state.to];
      status.textContent = `the trees of ${duration(about, to - from)} are in another tab, which shows how far their analysis is`;
      open(`${about.base}${treesAddress(view)}`, `trees-${tab}`);
    },
    i() {
      if (about.folded) return;
      status.textContent = "the instances are in another tab; a trace is scanned when they are looked for first";
      open(`${about.base}${foldAddress(view)}`, `fold-${tab}`);
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
    o() {
      if (!pair) return say("one run is shown");
      const k = view === views[0] ? 1 : 0;
      panes[k].labels.focus({ preventScroll: true });
      activate(k);
      say(`keys act on ${"AB"[k]}: ${about.name}`);
    },
    q() {
      if (!pair) return say("one run is shown");
      const ids = ["", ...abouts.flatMap(({ classes }) => classes).filter((id, i, every) => every.indexOf(id) === i)];
      subtract(ids[(ids.indexOf(pair.part) + 1) % ids.length]);
    },
    u: () => stepInstance(-1),
    y: () => stepInstance(1),
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
      try {
        localStorage.setItem("tracecols-theme", dataset.theme);
      } catch {}
      recolour();
    },
  };
  function stepInstance(by) {
    if (!pair) return say("one run is shown");
    const { by: way, of, k } = pair.wanted;
    return alignAt({ by: "phase", of, k: way === "phase" ? Math.max(k + by, 0) : 0 });
  }

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
    pair?.take(location.hash);
    const was = pair?.found;
    const done = () => {
      views.forEach((of, i) => {
        of.state = fromAddress(pair ? pair.hashes[i] : location.hash, of.about);
        if (of.answer) of.take(of.answer, of.rows);
        of.focusRow(of.state.row);
      });
      openWait();
      for (const of of views) of.changed();
    };
    if (!was) return done();
    pair.align(pair.wanted).then(done, (error) => {
      pair.trouble = error.message;
      redraw();
    });
  });

  const openWait = () => {
    for (const of of views) if (of.state.wait) of.chooseWait(of.state.wait, { stays: true, keep: false });
  };

  async function recolour() {
    for (const of of views) {
      if (of.answer) of.take(of.answer, of.rows);
      if (of.difference) of.difference.cells = imageOfDifference(of.difference, of.difference.rows);
    }
    await loadStrip();
    redraw();
  }

  async function loadStrip() {
    for (const of of views) {
      of.overview ??= await of.ask("view", { from: 0, to: of.about.length + 1, rows: "0", columns: 1400, page: "" }).catch(() => null);
      if (of.overview) of.strip = imageOf(of.about, of.overview, [0]);
    }
  }

  loadStrip().then(() => {
    for (const of of panes) of.measure();
    openWait();
  });
  pane.labels.focus({ preventScroll: true });
}

if (WAITING) waitForTrees(root);
else start();
