import { withoutResidue } from "./numbers.js";

/** Trees in depth-first order: the subtree of node i is i .. end[i] - 1. */
export class Forest {
  /** @param {ArrayLike<number>} parent node above each node, -1 for roots; parents come before their children */
  constructor(parent) {
    const n = parent.length;
    this.length = n;
    this.parent = Int32Array.from(parent);
    this.depth = new Int32Array(n);
    this.end = new Int32Array(n);
    for (let i = 0; i < n; i++) if (parent[i] >= 0) this.depth[i] = this.depth[parent[i]] + 1;
    for (let i = n - 1; i >= 0; i--) {
      if (!this.end[i]) this.end[i] = i + 1;
      if (parent[i] >= 0 && this.end[parent[i]] < this.end[i]) this.end[parent[i]] = this.end[i];
    }
  }

  /** Children of a node, of all trees for -1. */
  children(node) {
    const found = [];
    const stop = node < 0 ? this.length : this.end[node];
    for (let i = node + 1; i < stop; i = this.end[i]) found.push(i);
    return found;
  }

  isLeaf(node) {
    return this.end[node] === node + 1;
  }

  root(node) {
    while (this.parent[node] >= 0) node = this.parent[node];
    return node;
  }

  /** Ancestors, the nearest first. */
  ancestors(node) {
    const found = [];
    for (let i = this.parent[node]; i >= 0; i = this.parent[i]) found.push(i);
    return found;
  }

  /** Sums over subtrees, of 64-bit integers or numbers; of those that are rounded nothing is left where they cancel. */
  inclusive(own, isRounded) {
    const up = (sums) => {
      for (let i = this.length - 1; i >= 0; i--) if (this.parent[i] >= 0) sums[this.parent[i]] += sums[i];
      return sums;
    };
    const sums = up(own.slice());
    return isRounded && own.some((v) => v < 0) ? withoutResidue(sums, up(own.map(Math.abs))) : sums;
  }
}
