import { Amounts, largest, ofSelection } from "./amounts.js";
import { CallView, WHOLE } from "./cut.js";
import { periodText, signed } from "./numbers.js";
import { Tree } from "./tree.js";

export const MODES = {
  absolute: { title: "Absolute", hint: "percent of the total time; for properties that are no time, of their root" },
  relative: { title: "Relative", hint: "percent of the selection on the left" },
  root: { title: "Own root", hint: "percent of the root of the own tree" },
  plain: { title: "Values", hint: "seconds, occurrences or bytes" },
};

export const DEFAULTS = {
  mode: "absolute",
  calls: "tree",
  system: "tree",
  places: "machine",
  order: "tree",
  zeros: "show",
  scale: "spectrum",
  threshold: 0.005,
  range: "max",
};

/** Nodes whose value would not be written as 0.00 percent, open or closed, those above them, and what is selected. */
function withValue(tree, { own, inclusive }, whole) {
  const shown = new Uint8Array(own.length);
  const least = 0.00005 * Math.abs(whole);
  const counts = (value) => value !== 0 && Math.abs(value) >= least;
  for (let i = own.length - 1; i >= 0; i--) {
    if (counts(own[i]) || counts(inclusive[i]) || tree.selected.has(i)) shown[i] = 1;
    if (shown[i] && tree.forest.parent[i] >= 0) shown[tree.forest.parent[i]] = 1;
  }
  return shown;
}

/** The values of the nodes of a tree, with their subtree and without, the sums that they follow from, and the largest. */
function shownOf(amounts) {
  const [own, inclusive] = [amounts.own.values, amounts.inclusive.values];
  return { own, inclusive, amounts, largest: amounts.own.postfix ? largest(own, inclusive) : 0 };
}

/**
 * What is selected, and the values that follow from it.
 *
 * The call tree shows the selected properties, the system tree the selected properties on the selected call paths. A node that
 * is selected counts as it is shown: with its subtree when closed, without when open (thesis, table 4.1). Without a selected
 * call path the system tree shows all of them.
 */
export class Model {
  /** @param {import("./cube.js").Cube} cube @param {string} title what the cube is called */
  constructor(cube, title = "") {
    this.cube = cube;
    this.title = title;
    // subdomains of the application are there because they were asked for
    this.settings = { ...DEFAULTS, places: cube.systems.subdomains ? "subdomains" : "machine" };
    this.listeners = new Set();
    this.dark = false;
    this.generation = 0;
    this.message = "";
    this.view = new CallView(cube);
    this.noCalls();
    this.setLocations(new Amounts([new Float64Array(cube.nLocations)]));
    this.byPeriod = null;
    this.run = null;
    this.path = undefined;
    this.showsTime = false;
    // the first and the last period that the trees are of; null: all of the time
    this.scope = null;
    this.totals = cube.totals;
    this.ready = Promise.resolve();
    const { properties } = cube.header;
    this.trees = {
      properties: this.newTree((i) => properties.title[i], cube.properties, { allow: (nodes) => this.oneKind(nodes) }),
      calls: this.newTree((i) => this.view.name(i), cube.calls),
      flat: this.newTree((i) => this.flatLabel(i), cube.flat),
    };
    this.placeTrees = Object.fromEntries(
      Object.entries(cube.systems).map(([key, place]) => [key, this.newTree((i) => this.systemLabel(i, place), place.forest)]),
    );
    this.trees.system = this.placeTrees[this.settings.places];
    this.hideEmpty();
    this.start();
  }

  newTree(label, forest, more = {}) {
    return new Tree(forest, { label, onChange: (what) => this.changed(what), ...more });
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  emit() {
    for (const listener of this.listeners) listener();
  }

  /** Properties without any value are not shown, unless that would leave nothing. */
  hideEmpty() {
    const { cube } = this;
    const shown = new Uint8Array(cube.properties.length);
    for (let i = shown.length - 1; i >= 0; i--) {
      if (!cube.isEmpty(i)) shown[i] = 1;
      if (shown[i] && cube.properties.parent[i] >= 0) shown[cube.properties.parent[i]] = 1;
    }
    if (shown.some(Boolean)) this.trees.properties.arrange({ shown });
  }

  /** Open on the property with the largest share of the first tree, and on the call path where most of it lies. */
  start() {
    const { cube, trees } = this;
    const hot = cube.header.start;
    if (hot < 0) return;
    const first = cube.properties.root(hot);
    const expanded = new Set(cube.properties.ancestors(hot));
    const limit = this.settings.threshold * cube.totals.whole[first];
    // what is worth a look is open, but not the selected property: closed, it stands for all of it
    for (let i = first; i < cube.properties.end[first]; i++)
      if (Math.abs(cube.totals.inclusive[i]) >= limit && cube.properties.depth[i] < 3) expanded.add(i);
    for (let i = hot; i < cube.properties.end[hot]; i++) expanded.delete(i);
    trees.properties.set({ expanded, selected: [hot] });
    for (const [key, { forest, kind }] of Object.entries(cube.systems)) {
      const opened = [];
      for (let i = 0; i < forest.length; i++) if (forest.length <= 200 || kind[i] !== "process") opened.push(i);
      this.placeTrees[key].set({ expanded: opened });
    }
    this.openHot = true;
  }

  /** Select a property, without what is below it, and a call path: what a finding of the overview is about. */
  follow(property, call) {
    const { cube, trees } = this;
    this.openHot = false;
    const { properties } = this.trees;
    const opened = new Set([...properties.expanded, ...cube.properties.ancestors(property)]);
    // open, it stands for what it has of its own
    if (!cube.properties.isLeaf(property)) opened.add(property);
    properties.set({ expanded: opened, selected: [property] });
    properties.show(property);
    if (this.settings.calls !== "tree") this.set({ calls: "tree" });
    // what it is about must be there as it is
    if (!this.view.isWhole) this.setMarks(null);
    const expanded = new Set([...trees.calls.expanded, ...cube.calls.ancestors(call)]);
    if (!cube.calls.isLeaf(call)) expanded.add(call);
    trees.calls.set({ expanded, selected: [call] });
    trees.calls.show(call);
  }

  /** Select what the page was opened for: a property, a call path with what is below it, nodes of the system tree. */
  open({ property, call, system }) {
    const { trees } = this;
    const select = (tree, nodes) => {
      if (!nodes.length) return;
      const expanded = new Set([...tree.expanded, ...nodes.flatMap((i) => tree.forest.ancestors(i))]);
      for (const i of nodes) expanded.delete(i);
      tree.set({ expanded, selected: nodes });
      tree.show(nodes[0]);
    };
    if (call >= 0) this.openHot = false;
    if (property >= 0) select(trees.properties, [property]);
    if (call >= 0) select(trees.calls, [call]);
    select(trees.system, system);
  }

  /** Only properties of one tree add up. */
  oneKind(nodes) {
    const { cube } = this;
    if (!nodes.length) {
      const kept = [...(this.trees?.properties.selected ?? [])];
      return kept.length ? this.trees.properties.visible(kept) : [0].slice(0, cube.properties.length);
    }
    const last = cube.properties.root(nodes[nodes.length - 1]);
    const fitting = nodes.filter((i) => cube.properties.root(i) === last);
    this.say(fitting.length < nodes.length ? "Only properties of one tree add up" : "");
    return fitting;
  }

  say(message) {
    this.message = message;
    clearTimeout(this.silence);
    if (message)
      this.silence = setTimeout(() => {
        this.message = "";
        this.emit();
      }, 4000);
  }

  flatLabel(i) {
    const { flat, header } = this.cube;
    if (flat.call[i] < 0) return header.regions.name[flat.region[i]];
    const path = this.cube.path(flat.call[i]);
    return path.length > 1 ? path.slice(0, -1).join(" \u203a ") : path[0];
  }

  systemLabel(i, place = this.place) {
    const { locations } = this.cube.header;
    const row = place.location[i];
    if (row >= 0) return place.name[i] || `thread ${locations.thread[row]}`;
    return place.name[i] || place.kind[i];
  }

  /** The tree of places that is shown: machines, or subdomains of the application. */
  get place() {
    return this.cube.systems[this.settings.places];
  }

  /** The name of a location in one line. */
  locationLabel(row) {
    const { locations } = this.cube.header;
    return `rank ${locations.rank[row]} thread ${locations.thread[row]}`;
  }

  get callTree() {
    return this.settings.calls === "flat" ? this.trees.flat : this.trees.calls;
  }

  set(settings) {
    const before = this.settings;
    this.settings = { ...before, ...settings };
    if (!this.place) this.settings.places = before.places;
    if (this.settings.places !== before.places) {
      this.trees.system = this.placeTrees[this.settings.places];
      this.setLocations(this.ofLocations);
    }
    if (this.settings.calls !== before.calls) this.changed("selection");
    this.arrange();
    this.emit();
    this.onSettings?.(this.settings);
  }

  /** Show the pane Time or not; what it shows is read only then. */
  showTime(on) {
    this.showsTime = Boolean(on && this.cube.periods);
    // a scope that cannot be seen would mislead
    if (!this.showsTime) this.scope = null;
    this.update();
    this.emit();
  }

  /** Let the trees tell of some periods only, or with null of all of the time. */
  setScope(scope) {
    this.scope = scope;
    if (scope) this.showsTime = true;
    this.update();
    this.emit();
  }

  changed(what) {
    if (!this.trees) return;
    if (what === "selection") this.update();
    this.emit();
  }

  /** The selected property nodes with their state. */
  selection() {
    return this.trees.properties.selection();
  }

  /** Which call paths the selection in the middle stands for. */
  mask() {
    const { cube, view } = this;
    const { flat } = cube;
    const selection = this.callTree.selection();
    if (!selection.length) return view.everything();
    if (this.settings.calls !== "flat") return view.mask(selection);
    const chosen = new Uint8Array(cube.calls.length);
    for (const [node, open] of selection) {
      if (flat.call[node] >= 0) chosen[flat.call[node]] = 1;
      else if (!open) for (const child of flat.children(node)) chosen[flat.call[child]] = 1;
    }
    return view.isWhole ? chosen : Uint8Array.from(view.at, (k) => (k >= 0 ? chosen[view.call[k]] : 0));
  }

  /** Cut the call tree at a node: show only its subtree (root), hide that (prune), or join instances below it (loop). */
  mark(how, node) {
    const call = this.view.callOf(node);
    const { root, pruned, loops } = this.view.marks;
    if (how === "root") {
      this.setMarks({ root: call, pruned, loops });
      // all that is left is the selection: what it consists of
      this.trees.calls.set({ expanded: [...this.trees.calls.expanded, 0], selected: [] });
    } else if (how === "prune") this.setMarks({ root, pruned: [...new Set([...pruned, call])], loops });
    else this.setMarks({ root, pruned, loops: [...new Set([...loops, call])] });
  }

  unmark(how, call) {
    const { root, pruned, loops } = this.view.marks;
    const others = (list) => list.filter((i) => i !== call);
    this.setMarks({
      root: how === "root" ? -1 : root,
      pruned: how === "prune" ? others(pruned) : pruned,
      loops: how === "loop" ? others(loops) : loops,
    });
  }

  /** Show the call tree cut in another way, or with null all of it; what is open and selected stays so where it is shown. */
  setMarks(marks) {
    const before = this.view;
    const { calls: old } = this.trees;
    this.view = new CallView(this.cube, marks ?? WHOLE);
    const moved = (nodes) => [...new Set([...nodes].map((i) => this.view.nodeOf(before.callOf(i))).filter((i) => i >= 0))];
    this.noCalls();
    const tree = this.newTree((i) => this.view.name(i), this.view.forest);
    // what is selected must be seen
    const selected = moved(old.selected);
    const expanded = [...moved(old.expanded), ...selected.flatMap((i) => this.view.forest.ancestors(i))];
    tree.quiet = true;
    tree.set({ expanded, selected });
    tree.quiet = false;
    this.trees.calls = tree;
    this.update();
    this.emit();
  }

  noCalls() {
    const nothing = new Amounts([new Float64Array(this.view.forest.length)]);
    this.callsOf = null;
    this.setCalls({ own: nothing, inclusive: nothing });
  }

  update() {
    const of = [this.view.marks, this.settings.calls, this.callTree.selection()];
    const key = JSON.stringify([this.selection(), of, this.showsTime, this.scope]);
    if (key === this.key) return;
    this.key = key;
    const generation = ++this.generation;
    const slow = setTimeout(() => {
      this.busy = true;
      this.emit();
    }, 120);
    this.ready = this.compute(generation)
      .catch((error) => {
        this.key = null;
        this.error = `The values cannot be read: ${error.message}`;
      })
      .finally(() => {
        clearTimeout(slow);
        if (generation !== this.generation) return;
        this.busy = false;
        this.emit();
      });
  }

  async compute(generation) {
    const selection = this.selection();
    const { scope, view } = this;
    const properties = JSON.stringify([selection, scope, view.marks]);
    if (properties !== this.callsOf) {
      const { root } = view.marks;
      const inScope = JSON.stringify([scope, root]);
      let { totals } = this;
      if (inScope !== this.totalsIn)
        totals = scope || root >= 0 ? await this.cube.totalsWithin(scope, root >= 0 ? view.everything() : null) : this.cube.totals;
      const amounts = await this.cube.byCallPath(selection, scope, view);
      if (generation !== this.generation) return;
      this.callsOf = properties;
      this.totalsIn = inScope;
      this.totals = totals;
      this.setCalls(amounts);
      this.arrange();
      if (this.openHot) {
        this.openHot = false;
        this.openCalls();
      }
      this.emit();
    }
    const byLocation = await this.cube.byLocation(selection, this.mask(), scope);
    if (generation !== this.generation) return;
    this.setLocations(byLocation);
    this.arrange();
    if (this.showsTime) {
      const byPeriod = await this.cube.byPeriod(selection, this.mask());
      const run = await this.runProfile();
      const path = this.path === undefined ? await this.cube.pathByPeriod() : this.path;
      if (generation !== this.generation) return;
      this.byPeriod = byPeriod;
      this.run = run;
      this.path = path;
    }
    this.error = "";
    this.onSelection?.();
  }

  /** What the time of each period was spent on, on the selected call paths; null of a cube that does not know. */
  async runProfile() {
    const whole = this.cube.header.profile;
    const mask = this.mask();
    if (!whole) return null;
    if (mask.every(Boolean)) return { ...whole, isWhole: true };
    const key = mask.join("");
    if (key !== this.runKey) {
      this.runOf = { ...(await this.cube.profileOn(whole, mask)), isWhole: false };
      this.runKey = key;
    }
    return this.runOf;
  }

  setCalls(amounts) {
    const { flat, calls } = this.cube;
    const ownFlat = amounts.own.map((own) => {
      const each = new Float64Array(calls.length);
      own.forEach((value, node) => (each[this.view.callOf(node)] = value));
      return Float64Array.from(flat.call, (i) => (i >= 0 ? each[i] : 0));
    });
    this.calls = shownOf(amounts);
    this.flat = shownOf({ own: ownFlat, inclusive: ownFlat.map((own) => flat.inclusive(own, true)) });
  }

  setLocations(amounts) {
    const own = amounts.map((column) => this.place.spread(column));
    this.ofLocations = amounts;
    this.byLocation = amounts.values;
    this.system = shownOf({ own, inclusive: own.map((column) => this.place.forest.inclusive(column, true)) });
  }

  arrange() {
    const { trees, settings } = this;
    const sorted = settings.order === "value";
    const mode = settings.mode === "plain" ? "absolute" : settings.mode;
    const computed = this.isComputed("calls");
    const shown = (tree, values, pane) =>
      settings.zeros === "hide" ? withValue(tree, values, computed ? values.largest : mode === "root" ? 0 : this.whole(pane, 0, mode)) : null;
    if (settings.calls === "flat")
      trees.flat.arrange({ weight: this.flat.inclusive, shown: this.view.ofFlat(shown(trees.flat, this.flat, "calls")) });
    else trees.calls.arrange({ weight: sorted ? this.calls.inclusive : null, shown: shown(trees.calls, this.calls, "calls") });
    trees.system.arrange({ weight: sorted ? this.system.inclusive : null, shown: shown(trees.system, this.system, "system") });
  }

  /** Open the call tree along its largest share, without selecting; or where the first finding lies. */
  openCalls() {
    const { calls } = this.trees;
    const first = this.cube.header.start_call ?? -1;
    if (first >= 0 && this.view.isWhole && this.property() === this.cube.header.start) {
      calls.set({ expanded: new Set(calls.forest.ancestors(first)) });
      calls.show(first);
      return;
    }
    // there is no largest share of a ratio
    if (this.isComputed("calls")) return;
    const expanded = new Set();
    // a change may go in either direction
    const size = this.cube.isDifference ? Math.abs : (v) => v;
    const inclusive = this.calls.inclusive.map(size);
    let nodes = calls.children(-1);
    for (;;) {
      const next = nodes.reduce((best, i) => (best < 0 || inclusive[i] > inclusive[best] ? i : best), -1);
      if (next < 0 || calls.forest.isLeaf(next) || !(inclusive[next] > 0)) break;
      expanded.add(next);
      if (size(this.calls.own[next]) >= Math.max(...calls.children(next).map((i) => inclusive[i]))) {
        expanded.delete(next);
        break;
      }
      nodes = calls.children(next);
    }
    calls.set({ expanded });
  }

  // -- what a pane shows -----------------------------------------------------------------------------------------------

  /** The values of a pane's nodes: with their subtree and without. */
  values(pane) {
    if (pane === "properties") return this.totals;
    if (pane === "calls") return this.settings.calls === "flat" ? this.flat : this.calls;
    return this.system;
  }

  tree(pane) {
    return pane === "calls" ? this.callTree : this.trees[pane];
  }

  /** The value a node shows in its state. */
  value(pane, node) {
    const { own, inclusive } = this.values(pane);
    return this.tree(pane).isOpen(node) ? own[node] : inclusive[node];
  }

  property() {
    return this.selection()[0]?.[0] ?? 0;
  }

  /** Whether values of a pane, of properties those of a node, are computed from others: they do not add up and are no shares. */
  isComputed(pane, node) {
    return Boolean(this.cube.formula(pane === "properties" ? node : this.property()));
  }

  /** Whether numbers are values, not percent. */
  isPlain(pane, node) {
    return this.settings.mode === "plain" || this.isComputed(pane, node);
  }

  unit(pane, node) {
    return this.cube.header.properties.unit[pane === "properties" ? node : this.property()];
  }

  /** What the selected properties amount to. */
  selectedTotal() {
    return this.selection().reduce((sum, [node, open]) => sum + (open ? this.totals.own : this.totals.inclusive)[node], 0);
  }

  /** What 100 percent are for a node; without sign, so that shares have that of their values. 0 where there are no shares. */
  whole(pane, node, mode = this.settings.mode) {
    const { cube } = this;
    if (this.isComputed(pane, node)) return 0;
    const property = pane === "properties" ? node : this.property();
    const root = cube.properties.root(property);
    const { whole } = this.totals;
    if (pane === "properties") return whole[mode === "root" || mode === "relative" || !this.isTime(root) ? root : this.time(root)];
    if (mode === "relative") return Math.abs(pane === "calls" ? this.selectedTotal() : this.selectedValue());
    if (mode === "root") return Math.abs(this.values(pane).inclusive[this.tree(pane).forest.root(node)]);
    return whole[this.isTime(root) ? this.time(root) : root];
  }

  isTime(root) {
    return this.cube.header.properties.unit[root] === "sec";
  }

  /** The root that is the total time. */
  time(root) {
    const time = this.cube.header.properties.id.indexOf("time");
    return time >= 0 ? time : root;
  }

  /** What the selected call paths amount to. */
  selectedValue() {
    const selection = this.callTree.selection();
    if (!selection.length) return this.selectedTotal();
    return this.together("calls", selection);
  }

  /** What the nodes of a selection amount to together. */
  together(pane, selection) {
    return ofSelection(this.values(pane).amounts, selection);
  }

  /** The share that decides about number and colour; of what is computed that of the largest value. */
  share(pane, node) {
    const whole = pane !== "properties" && this.isComputed(pane) ? this.values(pane).largest : this.whole(pane, node);
    return whole === 0 ? 0 : this.value(pane, node) / whole;
  }

  /** What shares refer to, in words. */
  hint() {
    const { mode } = this.settings;
    if (this.isComputed("calls")) return "computed from the sums of each row; colours: percent of the largest value";
    if (mode === "plain") return "colours: percent of the total";
    const { root } = this.view.marks;
    const within = root >= 0 && !this.cube.isDifference ? ` below ${this.cube.callName(root)}` : "";
    const scoped = this.scope ? `; only of ${periodText(this.cube.periods, ...this.scope)}${within}` : within && `; only${within}`;
    return MODES[mode].hint + (this.cube.isDifference && mode !== "relative" ? "; changes: of what was subtracted" : "") + scoped;
  }

  /** The number of a node as it is shown. */
  number(value, text) {
    return signed(text, value, this.cube.isDifference);
  }

  look() {
    return { scale: this.settings.scale, threshold: this.settings.threshold, dark: this.dark, changes: this.cube.isDifference };
  }

  hotPath(pane) {
    const { own, inclusive } = this.values(pane);
    const tree = this.tree(pane);
    if (this.isComputed(pane, this.property())) {
      this.say("What is computed from others does not add up: there is no path to follow");
      this.emit();
      return;
    }
    // roots of properties have different units
    const tops = pane === "properties" ? [tree.forest.root(this.property())] : tree.children(-1);
    if (tree.hotPath(inclusive, own, tops)) return;
    this.say("There is nothing to follow");
    this.emit();
  }

  /** Nodes whose name contains a text. */
  search(pane, text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const tree = this.tree(pane);
    const found = [];
    for (let i = 0; i < tree.forest.length; i++) {
      if (tree.shown && !tree.shown[i]) continue;
      if (this.names(pane, i).some((name) => name.toLowerCase().includes(wanted))) found.push(i);
    }
    return found;
  }

  /** What a search looks at. */
  names(pane, i) {
    const { cube } = this;
    const { properties, regions } = cube.header;
    if (pane === "properties") return [properties.title[i], properties.id[i]];
    if (pane === "system") {
      const { kind, location } = this.place;
      return [this.systemLabel(i), location[i] >= 0 ? this.locationLabel(location[i]) : kind[i]];
    }
    if (this.settings.calls === "flat") return cube.flat.call[i] < 0 ? [regions.name[cube.flat.region[i]]] : [];
    return [this.view.name(i), cube.callSite(this.view.callOf(i))];
  }
}
