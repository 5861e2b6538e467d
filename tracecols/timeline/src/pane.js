// One timeline on the page: the rows with their names, the canvas, and the mouse.
import { draw, geometry, laneHeight, RULER, SHARES } from "./draw.js";
import { make } from "./panels.js";
import { percent } from "./words.js";

/** Give a canvas its size in pixels of the screen; returns what draws on it. */
export function size(element, width, height) {
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

/** Build the rows and the canvas of a view; `tip` shows what is below the mouse. */
export function makePane(view, tip) {
  const { about } = view;
  const canvas = make("canvas", { class: "canvas", role: "img" });
  const whose = view.pair ? `${view.isSecond ? "B" : "A"}: ` : "";
  const id = (row) => `${view.isSecond ? "b-" : ""}row-${row}`;
  const labels = make("div", { class: "labels", role: "tree", "aria-label": `Rows${whose && ` of ${whose}${about.name}`}`, "data-all": `${whose}${view.pair ? about.name : about.rows[0].label}`, tabindex: 0 });
  const space = make("div", { class: "space" });
  const stage = make("div", { class: "stage" }, labels, canvas);
  const scroller = make("div", { class: "scroller" }, stage, space);
  let drawn = { slices: [], waits: [] };

  // -- drawing -------------------------------------------------------------------------------------------------------

  function measure() {
    view.width = Math.max(120, scroller.clientWidth - labels.offsetWidth);
    view.height = Math.max(120, scroller.clientHeight);
    stage.style.setProperty("height", `${view.height}px`);
    view.changed();
  }

  function paint() {
    space.style.setProperty("height", `${Math.max(0, view.total + RULER + SHARES - view.height)}px`);
    if (Math.abs(scroller.scrollTop - view.scroll) > 1) scroller.scrollTop = view.scroll;
    drawn = draw(size(canvas, view.width, view.height), view);
    view.drawn = drawn;
    paintLabels();
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
    for (const { row, level, height } of view.inView) {
      const given = about.rows[row];
      if (!lines.has(row)) {
        const line = make("div", { class: "label", role: "treeitem", id: id(row), onclick: () => view.focusRow(row) });
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
      if (view.lanesOf(row)) words.push(...view.countersOf.get(given.location).map((k) => view.counterInWords(k)));
      line.setAttribute("aria-label", [given.label, ...words].join(", "));
    }
    labels.setAttribute("aria-activedescendant", id(view.state.row));
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
      view.scroll = drag.scroll - (y - drag.y);
      view.go(drag.from - by, drag.to - by);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    const [x, y] = local(event);
    const was = drag;
    drag = null;
    if (!was || was.moved) return;
    view.choose(pointed(x, y));
  });
  canvas.addEventListener("dblclick", (event) => view.zoom(0.25, geometry(view).ticks(local(event)[0])));
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });

  /** What is at a position: a wait, a slice, or a cell of the overview; nothing of the rows where none is. */
  function pointed(x, y) {
    const found = topmost(x, y);
    if (found.wait !== undefined || found.slice !== undefined || !view.answer || y <= RULER) return found;
    const at = geometry(view);
    const under = y < RULER + SHARES ? undefined : view.inView.find(({ row }) => view.lanesOf(row) && y >= at.row(row).top + at.row(row).height && y < at.row(row).top + at.row(row).height + at.row(row).lanes);
    if (under) {
      const listed = view.countersOf.get(about.rows[under.row].location);
      const band = at.row(under.row);
      return { counter: listed[Math.floor((y - band.top - band.height) / laneHeight(listed.length))], time: at.ticks(x) };
    }
    const line = y < RULER + SHARES ? { row: 0 } : view.inView.find(({ row }) => y >= at.row(row).top && y < at.row(row).top + at.row(row).height);
    return { cell: line ? view.cellOf(line.row, at.ticks(x)) : null };
  }

  function hover(x, y, event) {
    const text = view.describe(pointed(x, y));
    tip.hidden = !text;
    tip.textContent = text;
    const [{ clientX: left, clientY: top }, high] = [event, tip.offsetHeight];
    tip.style.setProperty("left", `${Math.min(left + 12, innerWidth - 260)}px`);
    // above the mouse where there is no room below it
    tip.style.setProperty("top", `${top + 14 + high < innerHeight ? top + 14 : Math.max(top - 8 - high, 0)}px`);
  }

  scroller.addEventListener("scroll", () => {
    if (Math.abs(view.scroll - scroller.scrollTop) <= 1) return;
    view.scroll = scroller.scrollTop;
    view.changed();
  });
  new ResizeObserver(measure).observe(scroller);

  return { element: scroller, canvas, labels, measure, paint };
}
