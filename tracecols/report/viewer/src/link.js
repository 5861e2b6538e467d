import { DEFAULTS } from "./model.js";

const KEPT = {
  mode: ["absolute", "relative", "root", "plain"],
  calls: ["tree", "flat"],
  system: ["tree", "topology", "distribution"],
  places: ["machine", "subdomains"],
  order: ["tree", "value"],
  zeros: ["show", "hide"],
};

const encode = (text) => encodeURIComponent(text).replace(/[*~]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);

/** Names of the nodes of a tree from the root; the k-th of several children of one name is name*k. */
class Addresses {
  constructor(forest, name) {
    this.forest = forest;
    this.name = (node) => encode(name(node));
  }

  of(node) {
    const { forest, name } = this;
    const parts = [...forest.ancestors(node).reverse(), node].map((i) => {
      const same = forest.children(forest.parent[i]).filter((j) => j <= i && name(j) === name(i));
      return same.length > 1 ? `${name(i)}*${same.length}` : name(i);
    });
    return parts.join("/");
  }

  /** The node of an address, or -1. */
  find(address) {
    let node = -1;
    for (const part of address.split("/")) {
      const [own, k = "1"] = part.split("*");
      const next = this.forest.children(node).filter((j) => this.name(j) === own)[Number(k) - 1];
      if (next === undefined) return -1;
      node = next;
    }
    return node;
  }
}

/**
 * The selection as the fragment of an address: names, so that a link holds for another report of the same program.
 *
 *   #p=omp_idle_threads&c=main/solve/MPI_Recv&s=..&t=3-5&root=main/solve&mode=relative&calls=flat&system=topology
 *
 * A node that is open, and so stands for what is not below it, has a leading '~'.
 */
export class Links {
  constructor(model) {
    this.model = model;
    const { cube } = model;
    const { properties, regions } = cube.header;
    this.addresses = {
      properties: { of: (i) => encode(properties.id[i]), find: (id) => properties.id.findIndex((own) => encode(own) === id) },
      paths: new Addresses(cube.calls, cube.callName),
      calls: {
        of: (node) => this.addresses.paths.of(model.view.callOf(node)),
        find: (address) => {
          const call = this.addresses.paths.find(address);
          return call < 0 ? -1 : model.view.nodeOf(call);
        },
      },
      flat: new Addresses(cube.flat, (i) =>
        cube.flat.call[i] < 0 ? regions.name[cube.flat.region[i]] : cube.path(cube.flat.call[i]).join("/"),
      ),
    };
    const places = Object.entries(cube.systems);
    this.places = Object.fromEntries(places.map(([key, { forest, name }]) => [key, new Addresses(forest, (i) => name[i])]));
  }

  write() {
    const { model, addresses } = this;
    const parts = [];
    const list = (key, tree, from) => {
      const selection = tree.selection();
      if (selection.length) parts.push(`${key}=${selection.map(([node, open]) => (open ? "~" : "") + from.of(node)).join(",")}`);
    };
    list("p", model.trees.properties, addresses.properties);
    list("c", model.callTree, addresses[model.settings.calls === "flat" ? "flat" : "calls"]);
    list("s", model.trees.system, this.places[model.settings.places]);
    const { marks } = model.view;
    for (const [key, calls] of [
      ["root", marks.root < 0 ? [] : [marks.root]],
      ["prune", marks.pruned],
      ["loop", marks.loops],
    ])
      if (calls.length) parts.push(`${key}=${calls.map((i) => addresses.paths.of(i)).join(",")}`);
    if (model.scope) parts.push(`t=${model.scope.join("-")}`);
    for (const key in KEPT) if (model.settings[key] !== DEFAULTS[key]) parts.push(`${key}=${model.settings[key]}`);
    return `#${parts.join("&")}`;
  }

  /** Follow a link; what it names and the cube does not have is left out and said. */
  read(fragment) {
    const { model, addresses } = this;
    const given = Object.fromEntries(
      fragment
        .replace(/^#/, "")
        .split("&")
        .filter((part) => part.includes("="))
        .map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
    );
    if (!Object.keys(given).length) return false;
    const settings = {};
    for (const key in KEPT) settings[key] = KEPT[key].includes(given[key]) ? given[key] : DEFAULTS[key];
    if (given.c) model.openHot = false;
    model.set(settings);
    const missing = [];
    const marked = (key) =>
      (given[key] ?? "")
        .split(",")
        .filter(Boolean)
        .flatMap((address) => {
          const call = addresses.paths.find(address);
          if (call < 0) missing.push(address);
          return call < 0 ? [] : [call];
        });
    const marks = { root: marked("root")[0] ?? -1, pruned: marked("prune"), loops: marked("loop") };
    if (JSON.stringify(marks) !== JSON.stringify(model.view.marks)) model.setMarks(marks);
    const follow = (text, tree, from) => {
      const expanded = new Set(tree.expanded);
      const selected = [];
      for (const item of (text ?? "").split(",").filter(Boolean)) {
        const node = from.find(item.replace(/^~/, ""));
        if (node < 0) {
          missing.push(item);
          continue;
        }
        selected.push(node);
        for (const above of tree.forest.ancestors(node)) expanded.add(above);
        if (item.startsWith("~")) expanded.add(node);
        else expanded.delete(node);
      }
      tree.set({ expanded, selected });
      if (selected.length) tree.show(selected[0]);
    };
    if (given.p) follow(given.p, model.trees.properties, addresses.properties);
    follow(given.c, model.callTree, addresses[settings.calls === "flat" ? "flat" : "calls"]);
    follow(given.s, model.trees.system, this.places[model.settings.places]);
    const scope = given.t
      ?.match(/^(\d+)-(\d+)$/)
      ?.slice(1)
      .map(Number);
    const fits = scope && scope[0] <= scope[1] && scope[1] < (model.cube.periods?.begin.length ?? 0);
    if (given.t && !fits) missing.push(`periods ${given.t}`);
    if (fits || model.scope) model.setScope(fits ? scope : null);
    if (missing.length) model.say(`Not in this cube: ${missing.join(", ")}`);
    return true;
  }
}
