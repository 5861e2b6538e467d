import { useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { colour } from "./colours.js";
import { copyText } from "./copy.js";
import { Tool } from "./icons.jsx";
import { full, percent, short, withUnit } from "./numbers.js";
import { CutTool, Marks } from "./marks.jsx";
import { Save } from "./save.jsx";
import { Marked, Search } from "./search.jsx";
import { tabbed, treeTable } from "./tables.js";

const ROW = 24;
/** Rows of a picture, at most. */
const MOST_ROWS = 2000;

/** Only the rows that can be seen are in the document. */
function useVirtualRows(count, scroller) {
  const [, redraw] = useReducer((n) => n + 1, 0);
  const options = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 10,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: redraw,
  };
  const virtual = useMemo(() => new Virtualizer(options), []);
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  return virtual;
}

function Row({ model, pane, tree, node, top, wanted }) {
  const element = useRef();
  const item = tree.tree.getItemInstance(String(node));
  useLayoutEffect(() => {
    item.registerElement(element.current);
    return () => item.registerElement(null);
  }, [tree, node]);
  const value = model.value(pane, node);
  const share = model.share(pane, node);
  const inclusive = model.values(pane).inclusive[node];
  const whole = model.whole(pane, node);
  const unit = model.unit(pane, node);
  const plain = model.isPlain(pane, node);
  const computed = model.isComputed(pane, node);
  const open = tree.isOpen(node);
  const leaf = !item.isFolder();
  const hidden = tree.hidden(node);
  // what everything else is measured by stands out by nothing
  const base = pane === "properties" && tree.forest.parent[node] < 0 && Math.abs(share - 1) < 1e-12;
  const grey = !(Math.abs(share) >= model.settings.threshold) && !(computed && pane === "properties");
  const { name, more, source } = describe(model, pane, node);
  const number = model.number(value, plain ? short(value, unit) : percent(share));
  const spoken = plain ? model.number(value, withUnit(value, unit)) : `${number} percent`;
  const { ref: _ref, ...props } = item.getProps();
  return (
    <div
      {...props}
      ref={element}
      class={`tc-row${grey ? " tc-grey" : ""}${value < 0 ? " tc-negative" : ""}`}
      data-node={node}
      aria-label={`${name}, ${spoken}`}
      style={{ transform: `translateY(${top}px)` }}
      title={`${[name, more].filter(Boolean).join("  ")}\n${full(value, unit)} ${leaf ? "" : open ? "without what is below" : "with what is below"}${source ? `\n${source}` : ""}`}
    >
      <span class="tc-weight">
        <span class="tc-number">{number}</span>
        <span class="tc-bar">
          <i
            style={{
              width: `${Math.min(100, Math.max(Math.abs(share) * 100 || 0, value && !computed ? 4 : 0))}%`,
              background: base ? "var(--tc-base)" : colour(share, model.look()),
            }}
          />
        </span>
      </span>
      <span class="tc-indent" style={{ width: `${16 * tree.forest.depth[node]}px` }} />
      {leaf ? <span class="tc-leaf" /> : <span class={`tc-twisty${open ? " tc-open" : ""}`} />}
      <span class="tc-name">
        <Marked text={name} wanted={wanted} />
        {more && <small>{more}</small>}
        {hidden > 0 && <small class="tc-below">{hidden} found below</small>}
        {open && !leaf && inclusive !== value && (
          <small class="tc-inclusive" title="with what is below">
            {"\u03a3 "}
            {model.number(inclusive, plain ? short(inclusive, unit) : percent(whole ? inclusive / whole : 0))}
          </small>
        )}
      </span>
    </div>
  );
}

/** Name of a node, what stands beside it, and where it is in the source. */
function describe(model, pane, node) {
  const { cube } = model;
  const { regions, locations, properties } = cube.header;
  if (pane === "properties") return { name: properties.title[node], more: model.isComputed(pane, node) ? "computed" : "" };
  if (pane === "system") {
    const { place } = model;
    const row = place.location[node];
    const kind = row >= 0 ? `rank ${locations.rank[row]} thread ${locations.thread[row]}` : place.name[node] ? place.kind[node] : "";
    return { name: model.systemLabel(node), more: kind };
  }
  const flat = model.settings.calls === "flat";
  const call = flat ? cube.flat.call[node] : model.view.callOf(node);
  const region = flat ? cube.flat.region[node] : cube.regionOf[call];
  const source = regions.file[region] ? `${regions.file[region]}${regions.line[region] > 0 ? `:${regions.line[region]}` : ""}` : "";
  if (flat) return { name: model.flatLabel(node), more: call < 0 ? "" : cube.callSite(call), source };
  const site = cube.callSite(call);
  const joined = model.view.count(node) > 1 ? `${model.view.count(node)} joined` : "";
  return { name: model.view.name(node), more: [site && !joined ? `from ${site}` : "", joined].filter(Boolean).join(", "), source };
}

/** One of the three trees, with its tools. */
export function TreePane({ model, pane, label, tools, controls }) {
  const tree = model.tree(pane);
  const scroller = useRef();
  const body = useRef();
  const [wanted, setWanted] = useState("");
  const [searching, setSearching] = useState(false);
  // for a picture all rows are in the document, not only those that can be seen
  const [unrolled, setUnrolled] = useState(false);
  const virtual = useVirtualRows(tree.rows.length, scroller);
  tree.scrollTo = (at) => virtual.scrollToIndex(at, { align: "auto" });
  useLayoutEffect(() => {
    tree.tree.registerElement(scroller.current);
    return () => tree.tree.registerElement(null);
  }, [tree]);
  const close = () => {
    setSearching(false);
    setWanted("");
    tree.tree.updateDomFocus();
  };
  const unroll = async () => {
    const { scrollTop, scrollLeft } = scroller.current;
    setUnrolled(true);
    await new Promise((go) => setTimeout(go));
    return {
      note: tree.rows.length > MOST_ROWS ? `first ${MOST_ROWS} of ${tree.rows.length} rows` : "",
      restore: () => {
        setUnrolled(false);
        scroller.current.scrollTo(scrollLeft, scrollTop);
      },
    };
  };
  const copy = async () => {
    model.say((await copyText(tabbed(treeTable(model, pane)))) ? `Copied ${tree.rows.length} rows` : "The browser does not allow copying");
    model.emit();
  };
  const keys = (event) => {
    if (event.target instanceof HTMLInputElement) return;
    const key = event.ctrlKey || event.metaKey || event.altKey ? "" : event.key;
    if (key === "/" || ((event.ctrlKey || event.metaKey) && event.key === "f")) setSearching(true);
    else if (key === "h") model.hotPath(pane);
    else if (key === "*") tree.expandAll([...tree.selected][0] ?? -1);
    else if (key === "Escape" && pane !== "properties") tree.set({ selected: [] });
    else if ((event.ctrlKey || event.metaKey) && event.key === "c" && !String(getSelection())) copy();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const shown = unrolled
    ? Array.from({ length: Math.min(tree.rows.length, MOST_ROWS) }, (_, index) => ({ index, start: ROW * index }))
    : virtual.getVirtualItems();
  const focused = tree.tree.getState().focusedItem;
  const reachable = shown.some(({ index }) => String(tree.rows[index]) === (focused ?? String(tree.rows[0])));
  const width = useMemo(
    () =>
      tree.rows.reduce((most, node) => {
        const { name, more } = describe(model, pane, node);
        return Math.max(most, 150 + 16 * tree.forest.depth[node] + Math.min(140, 7.2 * (name.length + more.length) + 20));
      }, 0),
    [tree.rows],
  );
  const saved = pane === "calls" && model.settings.calls === "flat" ? "flat" : pane;
  const sortable = pane !== "properties" && !(pane === "calls" && model.settings.calls === "flat");
  return (
    <div class="tc-treepane" ref={body} onKeyDown={keys}>
      <div class="tc-tools">
        {tools}
        <span class="tc-toolset">
          <Tool icon="hot" title="Hot path: open where the largest share lies (h)" onClick={() => model.hotPath(pane)} />
          {sortable && (
            <Tool
              icon="sort"
              title="Largest first"
              on={model.settings.order === "value"}
              onClick={() => model.set({ order: model.settings.order === "value" ? "tree" : "value" })}
            />
          )}
          {pane !== "properties" && (
            <Tool
              icon="filter"
              title="Only rows with a value"
              on={model.settings.zeros === "hide"}
              onClick={() => model.set({ zeros: model.settings.zeros === "hide" ? "show" : "hide" })}
            />
          )}
          <Tool icon="expand" title="Open all (* opens the selected one)" onClick={() => tree.expandAll()} />
          <Tool icon="collapse" title="Close all" onClick={() => tree.collapseAll()} />
          <Tool icon="copy" title="Copy as table (Ctrl+C)" onClick={copy} />
          {pane === "calls" && saved !== "flat" && <CutTool model={model} />}
          <Save model={model} pane={saved} label={label} table={() => treeTable(model, pane)} unroll={unroll} />
          <Tool icon="search" title="Search (/)" on={searching} onClick={() => (searching ? close() : setSearching(true))} />
        </span>
      </div>
      {controls && <div class="tc-controls">{controls}</div>}
      {pane === "calls" && <Marks model={model} />}
      {searching && <Search {...{ model, pane, tree, wanted, setWanted, close }} />}
      <div
        class="tc-scroll"
        ref={scroller}
        role="tree"
        aria-label={label}
        aria-multiselectable="true"
        tabIndex={reachable ? -1 : 0}
        onFocus={(event) => event.target === scroller.current && tree.tree.updateDomFocus()}
      >
        <div
          role="none"
          class={`tc-rows${shown.some(({ index }) => model.isPlain(pane, tree.rows[index])) ? " tc-plain" : ""}`}
          style={{ height: `${unrolled ? ROW * shown.length : virtual.getTotalSize()}px`, width: `${width}px` }}
        >
          {shown.map(({ index, start }) => (
            <Row key={tree.rows[index]} {...{ model, pane, tree, wanted }} node={tree.rows[index]} top={start} />
          ))}
        </div>
      </div>
    </div>
  );
}
