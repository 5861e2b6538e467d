import { Forest } from "./forest.js";

/** The name of an instance without its number: "iteration 3", "step[3]", "instance=3"; of others the name itself. */
const instanceOf = (name) => name.replace(/[\s=#[(]+\d+[\])]?$/, "");

/** What is marked in the call tree: nothing. */
export const WHOLE = { root: -1, pruned: [], loops: [] };

/**
 * The call tree as it is shown: of some call paths only, or with some joined, as its marks say.
 *
 * root: only this call path and what is below it; -1 all. pruned: what is below counts for the call path above. loops: below these,
 * instances of one region are joined, and so is what they call. Values of call paths are those of the nodes they count at.
 */
export class CallView {
  /**
   * @param {import("./cube.js").Cube} cube
   * @param {{root: number, pruned: number[], loops: number[]}} marks call paths
   */
  constructor(cube, marks = WHOLE) {
    this.cube = cube;
    this.marks = marks;
    const isMarked = marks.root >= 0 || marks.pruned.length > 0 || marks.loops.length > 0;
    if (!isMarked) {
      this.forest = cube.calls;
      this.call = null;
      this.at = null;
      return;
    }
    const { parent } = cube.calls;
    const [pruned, loops] = [new Set(marks.pruned), new Set(marks.loops)];
    const [from, stop] = marks.root >= 0 ? [marks.root, cube.calls.end[marks.root]] : [0, cube.calls.length];
    // nodes in the order in which their first call path comes: not depth-first where call paths are joined
    const above = [];
    const call = [];
    const node = new Int32Array(cube.calls.length).fill(-1);
    const hidden = new Uint8Array(cube.calls.length);
    // whether a node lies below a loop, and the children it has by name
    const joins = [];
    const children = [];
    for (let i = from; i < stop; i++) {
      const up = i === from ? -1 : parent[i] < 0 ? -1 : node[parent[i]];
      if (up >= 0 && (hidden[parent[i]] || pruned.has(i))) {
        hidden[i] = 1;
        node[i] = up;
        continue;
      }
      const isInstance = up >= 0 && joins[up] > 0;
      const name = cube.callName(i);
      const key = joins[up] === 2 ? instanceOf(name) : `${name}\n${cube.callSite(i)}`;
      const same = isInstance ? children[up].get(key) : undefined;
      if (same !== undefined) {
        node[i] = same;
        if (loops.has(i)) joins[same] = 2;
        continue;
      }
      node[i] = call.length;
      if (up >= 0) children[up].set(key, call.length);
      call.push(i);
      above.push(up);
      children.push(new Map());
      joins.push(loops.has(i) ? 2 : isInstance ? 1 : 0);
    }
    this.order(above, call, node);
  }

  /** Bring nodes into depth-first order. */
  order(above, call, node) {
    const below = above.map(() => []);
    const roots = [];
    above.forEach((up, i) => (up < 0 ? roots : below[up]).push(i));
    const rank = new Int32Array(above.length);
    const stack = roots.reverse();
    let n = 0;
    while (stack.length) {
      const i = stack.pop();
      rank[i] = n++;
      for (let k = below[i].length - 1; k >= 0; k--) stack.push(below[i][k]);
    }
    const parent = new Int32Array(n);
    this.call = new Int32Array(n);
    above.forEach((up, i) => {
      parent[rank[i]] = up < 0 ? -1 : rank[up];
      this.call[rank[i]] = call[i];
    });
    this.forest = new Forest(parent);
    this.at = node.map((i) => (i < 0 ? -1 : rank[i]));
    this.instances = new Int32Array(n);
    const { pruned } = this.marks;
    const isPruned = new Uint8Array(node.length);
    for (const i of pruned) isPruned.fill(1, i, this.cube.calls.end[i]);
    this.at.forEach((k, i) => k >= 0 && !isPruned[i] && this.instances[k]++);
  }

  get isWhole() {
    return !this.at;
  }

  /** The call path a node stands for; of several that are joined the first. */
  callOf(node) {
    return this.call ? this.call[node] : node;
  }

  /** The node at which a call path counts; -1 if it is not shown. */
  nodeOf(call) {
    return this.at ? this.at[call] : call;
  }

  name(node) {
    const call = this.callOf(node);
    return this.count(node) > 1 ? instanceOf(this.cube.callName(call)) : this.cube.callName(call);
  }

  /** How many call paths are joined in a node. */
  count(node) {
    return this.instances ? this.instances[node] : 1;
  }

  /** Names from the root of the program to a node. */
  path(node) {
    return this.cube.path(this.callOf(node));
  }

  /** Values of call paths, added up at the nodes at which they count; of any kind of number. */
  fold(values) {
    if (!this.at) return values;
    const sums = new values.constructor(this.forest.length);
    for (let i = 0; i < values.length; i++) if (this.at[i] >= 0) sums[this.at[i]] += values[i];
    return sums;
  }

  /** Call paths below a node that have a value of their own, and those that are joined with it. */
  mask(selection) {
    const chosen = new Uint8Array(this.forest.length);
    for (const [node, open] of selection) {
      if (open) chosen[node] = 1;
      else chosen.fill(1, node, this.forest.end[node]);
    }
    return this.at ? Uint8Array.from(this.at, (k) => (k >= 0 ? chosen[k] : 0)) : chosen;
  }

  /** Every call path that is shown. */
  everything() {
    return this.at ? Uint8Array.from(this.at, (k) => (k >= 0 ? 1 : 0)) : new Uint8Array(this.cube.calls.length).fill(1);
  }

  /** Which nodes of the flat view are shown: the call paths that have a node, and the regions of these. */
  ofFlat(shown) {
    const { flat } = this.cube;
    if (!this.at) return shown;
    const found = new Uint8Array(flat.length);
    for (const call of this.call) found[flat.nodeOf[call]] = found[flat.parent[flat.nodeOf[call]]] = 1;
    return shown ? found.map((is, i) => is && shown[i]) : found;
  }
}
