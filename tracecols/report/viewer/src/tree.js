import { bisectLeft } from "d3-array";
import { buildProxiedInstance, createTree, hotkeysCoreFeature, selectionFeature, syncDataLoaderFeature } from "@headless-tree/core";

const ROOT = "root";

/** Moving the focus selects, as in a file browser; with shift the selection grows. */
const moving = (hotkey, next) => ({
  hotkey,
  canRepeat: true,
  preventDefault: true,
  handler: (_event, tree) => {
    const items = tree.getItems();
    if (!items.length) return;
    const from = Math.max(0, tree.getFocusedItem().getItemMeta().index);
    const target = items[Math.max(0, Math.min(items.length - 1, next(from, items.length)))];
    target.setFocused();
    tree.setSelectedItems([target.getId()]);
    tree.updateDomFocus();
  },
});

/** A click selects, on the triangle it opens or closes; so does a second click on the name. */
const weightedTreeFeature = {
  key: "weighted-tree",
  itemInstance: {
    getProps: ({ tree, item, prev }) => ({
      ...prev?.(),
      onClick: (event) => {
        item.setFocused();
        if (event.target.closest?.(".tc-twisty") && item.isFolder()) {
          if (item.isExpanded()) item.collapse();
          else item.expand();
        } else if (event.shiftKey) item.selectUpTo(event.ctrlKey || event.metaKey);
        else {
          tree.getDataRef().current.selectUpToAnchorId = item.getId();
          if (event.ctrlKey || event.metaKey) item.toggleSelect();
          else tree.setSelectedItems([item.getId()]);
        }
      },
      onDblClick: (event) => {
        if (event.target.closest?.(".tc-twisty") || !item.isFolder()) return;
        if (item.isExpanded()) item.collapse();
        else item.expand();
      },
    }),
  },
  hotkeys: {
    focusNextItem: moving("ArrowDown", (i) => i + 1),
    focusPreviousItem: moving("ArrowUp", (i) => i - 1),
    focusFirstItem: moving("Home", () => 0),
    focusLastItem: moving("End", (_, n) => n - 1),
    pageDown: moving("PageDown", (i) => i + 15),
    pageUp: moving("PageUp", (i) => i - 15),
    expandOrDown: {
      hotkey: "ArrowRight",
      canRepeat: true,
      preventDefault: true,
      handler: (event, tree) => {
        const item = tree.getFocusedItem();
        if (item.isFolder() && !item.isExpanded()) item.expand();
        else weightedTreeFeature.hotkeys.focusNextItem.handler(event, tree);
      },
    },
    collapseOrUp: {
      hotkey: "ArrowLeft",
      canRepeat: true,
      preventDefault: true,
      handler: (_event, tree) => {
        const item = tree.getFocusedItem();
        if (item.isFolder() && item.isExpanded()) item.collapse();
        else if (item.getItemMeta().level > 0) {
          const above = item.getParent();
          above.setFocused();
          tree.setSelectedItems([above.getId()]);
          tree.updateDomFocus();
        }
      },
    },
  },
};

/**
 * One tree on the screen: which nodes are open, which are selected, in which order they stand.
 *
 * A weighted tree (thesis 4.5): a closed node stands for its whole subtree, an open one for what is not below it.
 */
export class Tree {
  /**
   * @param {import("./forest.js").Forest} forest
   * @param {{label: (i: number) => string, onChange: (what: "rows" | "selection" | "focus") => void, allow?: (nodes: number[]) => number[]}} options
   */
  constructor(forest, { label, onChange, allow = (nodes) => nodes }) {
    this.forest = forest;
    this.allow = allow;
    this.onChange = onChange;
    this.weight = null;
    this.shown = null;
    // while there is a search: what matches with what is above and below, and what was open before
    this.found = null;
    this.hits = null;
    this.before = null;
    this.expanded = new Set();
    this.selected = new Set();
    this.rows = [];
    this.scrollTo = () => {};
    this.quiet = true;
    this.tree = createTree({
      rootItemId: ROOT,
      instanceBuilder: buildProxiedInstance,
      getItemName: (item) => label(Number(item.getId())),
      isItemFolder: (item) => !forest.isLeaf(Number(item.getId())) && this.children(Number(item.getId())).length > 0,
      dataLoader: {
        getItem: (id) => ({ id }),
        getChildren: (id) => this.children(id === ROOT ? -1 : Number(id)).map(String),
      },
      features: [syncDataLoaderFeature, selectionFeature, hotkeysCoreFeature, weightedTreeFeature],
      scrollToItem: (item) => this.scrollTo(item.getItemMeta().index),
      setState: () => this.changed(),
    });
    this.tree.setMounted(true);
    this.tree.rebuildTree();
    this.quiet = false;
  }

  /** Children in their order, or the heaviest first; without what is hidden. */
  children(node) {
    let found = this.forest.children(node);
    if (this.shown) found = found.filter((i) => this.shown[i]);
    if (this.found) found = found.filter((i) => this.found[i]);
    // not a number is last
    const size = (i) => Math.abs(this.weight[i]) || 0;
    if (this.weight) found.sort((a, b) => size(b) - size(a) || a - b);
    return found;
  }

  changed() {
    const { expandedItems, selectedItems } = this.tree.getState();
    const items = this.tree.getItems();
    let rows = false;
    if (items !== this.items) {
      this.items = items;
      this.rows = items.map((item) => Number(item.getId()));
      rows = true;
    }
    if (expandedItems !== this.expandedItems) {
      this.expandedItems = expandedItems;
      this.expanded = new Set(expandedItems.map(Number));
    }
    const wanted = this.allow(this.visible(selectedItems.map(Number)));
    const selection = wanted.length !== this.selected.size || wanted.some((i) => !this.selected.has(i));
    if (selection || wanted.length !== selectedItems.length || wanted.some((i, k) => String(i) !== selectedItems[k])) {
      this.selected = new Set(wanted);
      this.tree.getState().selectedItems = wanted.map(String);
    }
    if (this.quiet) return;
    // whether a selected node is open decides what it stands for
    this.onChange(selection || rows ? "selection" : "focus");
  }

  /** What is selected inside a closed node becomes that node. */
  visible(nodes) {
    const found = new Set();
    for (let node of nodes) {
      for (const above of this.forest.ancestors(node)) if (!this.expanded.has(above)) node = above;
      found.add(node);
    }
    return [...found];
  }

  isOpen(node) {
    return this.expanded.has(node) && !this.forest.isLeaf(node);
  }

  /** Selected nodes, and whether each is open: without what is below it. */
  selection() {
    return [...this.selected].map((node) => [node, this.isOpen(node)]);
  }

  /** Set what is open and selected at once. */
  set({ expanded, selected, focused }) {
    const quiet = this.quiet;
    this.quiet = true;
    const state = this.tree.getState();
    if (expanded) state.expandedItems = [...expanded].filter((i) => !this.forest.isLeaf(i)).map(String);
    if (selected) state.selectedItems = [...selected].map(String);
    if (focused !== undefined) state.focusedItem = String(focused);
    else if (selected) state.focusedItem = selected.length ? String(selected[0]) : null;
    this.tree.rebuildTree();
    this.quiet = quiet;
    if (!quiet) this.onChange("selection");
  }

  /** Open all above some nodes, select them and show the first. */
  reveal(nodes) {
    const expanded = new Set(this.expanded);
    // a search opens what it finds: that stands for all of it again when it is selected
    if (this.before) for (const node of nodes) if (!this.before.has(node)) expanded.delete(node);
    for (const node of nodes) for (const above of this.forest.ancestors(node)) expanded.add(above);
    this.set({ expanded, selected: nodes });
    if (nodes.length) this.show(nodes[0]);
  }

  /**
   * Open all above nodes that a search finds, and hide what is neither found nor above or below it; null: show everything as before.
   *
   * What is selected stays as it is: a selected node that is closed is not opened, since it would stand for something else.
   * @param {number[] | null} nodes @param {boolean} only whether to hide others
   */
  filter(nodes, only = true) {
    if (!nodes && !this.before) return;
    const { forest, selected } = this;
    this.before ??= new Set(this.expanded);
    const expanded = new Set(this.before);
    for (const node of selected) {
      for (const above of forest.ancestors(node)) expanded.add(above);
      if (this.expanded.has(node)) expanded.add(node);
      else expanded.delete(node);
    }
    this.found = nodes && only ? new Uint8Array(forest.length) : null;
    this.hits = nodes ? Int32Array.from(nodes).sort() : null;
    for (const node of nodes ?? []) {
      this.found?.fill(1, node, forest.end[node]);
      for (let above = forest.parent[node]; above >= 0; above = forest.parent[above]) {
        if (this.found) this.found[above] = 1;
        if (!selected.has(above)) expanded.add(above);
      }
    }
    if (!nodes) this.before = null;
    this.set({ expanded });
    if (!nodes && selected.size) this.show([...selected][0]);
  }

  /** How many nodes that a search finds a closed node hides. */
  hidden(node) {
    if (!this.hits || this.isOpen(node)) return 0;
    return bisectLeft(this.hits, this.forest.end[node]) - bisectLeft(this.hits, node + 1);
  }

  show(node) {
    const at = this.rows.indexOf(node);
    if (at >= 0) setTimeout(() => this.scrollTo(at));
  }

  expandAll(under = -1) {
    const expanded = new Set(this.expanded);
    const stop = under < 0 ? this.forest.length : this.forest.end[under];
    for (let i = Math.max(0, under); i < stop; i++) if (!this.forest.isLeaf(i)) expanded.add(i);
    this.set({ expanded });
  }

  collapseAll() {
    this.set({ expanded: [] });
  }

  /**
   * Follow the largest share down to where it lies: open a node as long as one child has more than the node has by itself.
   * @param {ArrayLike<number>} inclusive @param {ArrayLike<number>} own
   * @param {number[]} tops where to start when nothing is selected, or when the path ends at what is
   */
  hotPath(inclusive, own, tops) {
    const heaviest = (nodes) => nodes.reduce((best, i) => (best < 0 || inclusive[i] > inclusive[best] ? i : best), -1);
    const from = this.selected.size === 1 ? [...this.selected][0] : -1;
    let node = from >= 0 && this.children(from).length ? from : heaviest(tops);
    if (node < 0 || !(inclusive[node] > 0)) return false;
    const expanded = new Set(this.expanded);
    for (const above of this.forest.ancestors(node)) expanded.add(above);
    for (;;) {
      const next = heaviest(this.children(node));
      if (next < 0 || !(inclusive[next] > own[node])) break;
      expanded.add(node);
      node = next;
    }
    expanded.delete(node);
    this.set({ expanded, selected: [node] });
    this.show(node);
    return true;
  }

  /** Order by weight, or as the tree stands; and leave out what is not to be shown. */
  arrange({ weight = this.weight, shown = this.shown }) {
    if (weight === this.weight && shown === this.shown) return;
    this.weight = weight;
    this.shown = shown;
    const quiet = this.quiet;
    this.quiet = true;
    this.tree.rebuildTree();
    this.quiet = quiet;
  }
}
