/**
 * The selection as the fragment of an address: names, so that a link holds for another report of the same program.
 *
 *   #p=omp_idle_threads&c=main/solve/MPI_Recv&s=..&mode=relative&calls=flat&system=topology
 *
 * A node that is open, and so stands for what is not below it, has a leading '~'. The k-th call path of one name is name*k.
 */
import { DEFAULTS } from "./model.js";

const KEPT = ["mode", "calls", "system", "order", "zeros"];

const encode = (text) => encodeURIComponent(text).replace(/[*~]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);

/** One name per node, told apart by number where there are several. */
function named(n, name) {
  const seen = new Map();
  const names = [];
  for (let i = 0; i < n; i++) {
    const own = name(i);
    const k = (seen.get(own) ?? 0) + 1;
    seen.set(own, k);
    names.push(k > 1 ? `${own}*${k}` : own);
  }
  return names;
}

export class Links {
  constructor(model) {
    this.model = model;
    const { cube } = model;
    const { properties, regions, system } = cube.header;
    const below = (forest, own) => {
      const paths = [];
      for (let i = 0; i < forest.length; i++) paths.push((forest.parent[i] < 0 ? "" : `${paths[forest.parent[i]]}/`) + encode(own(i)));
      return paths;
    };
    const calls = below(cube.calls, cube.callName);
    this.names = {
      properties: named(cube.properties.length, (i) => encode(properties.id[i])),
      calls: named(cube.calls.length, (i) => calls[i]),
      flat: named(cube.flat.length, (i) =>
        cube.flat.call[i] < 0 ? encode(regions.name[cube.flat.region[i]]) : `/${calls[cube.flat.call[i]]}`,
      ),
      system: below(cube.system, (i) => system.name[i] || `${system.kind[i]} ${i}`),
    };
    this.names.system = named(cube.system.length, (i) => this.names.system[i]);
  }

  write() {
    const { model, names } = this;
    const parts = [];
    const list = (key, tree, from) => {
      const selection = tree.selection();
      if (selection.length) parts.push(`${key}=${selection.map(([node, open]) => (open ? "~" : "") + from[node]).join(",")}`);
    };
    list("p", model.trees.properties, names.properties);
    list("c", model.callTree, names[model.settings.calls === "flat" ? "flat" : "calls"]);
    list("s", model.trees.system, names.system);
    for (const key of KEPT) if (model.settings[key] !== DEFAULTS[key]) parts.push(`${key}=${model.settings[key]}`);
    return `#${parts.join("&")}`;
  }

  /** Follow a link; what it names and the cube does not have is left out and said. */
  read(fragment) {
    const { model, names } = this;
    const given = Object.fromEntries(
      fragment
        .replace(/^#/, "")
        .split("&")
        .filter((part) => part.includes("="))
        .map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
    );
    if (!Object.keys(given).length) return false;
    const settings = {};
    const known = {
      mode: ["absolute", "relative", "root", "plain"],
      calls: ["tree", "flat"],
      system: ["tree", "topology", "distribution"],
      order: ["tree", "value"],
      zeros: ["show", "hide"],
    };
    for (const key of KEPT) settings[key] = known[key].includes(given[key]) ? given[key] : DEFAULTS[key];
    if (given.c) model.openHot = false;
    model.set(settings);
    const missing = [];
    const follow = (text, tree, from) => {
      const expanded = new Set(tree.expanded);
      const selected = [];
      for (const item of (text ?? "").split(",").filter(Boolean)) {
        const node = from.indexOf(item.replace(/^~/, ""));
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
    if (given.p) follow(given.p, model.trees.properties, names.properties);
    follow(given.c, model.callTree, names[settings.calls === "flat" ? "flat" : "calls"]);
    follow(given.s, model.trees.system, names.system);
    if (missing.length) model.say(`Not in this cube: ${missing.join(", ")}`);
    return true;
  }
}
