import { Menu } from "./menu.jsx";

const WAYS = {
  root: { title: "Only this subtree", hint: "show this call path and what it calls, as if it were the root", chip: "only" },
  prune: { title: "Prune", hint: "hide this subtree; its values count for the call path above", chip: "without" },
  loop: {
    title: "Loop: join instances",
    hint: "join instances of one region below this call path, and what they call",
    chip: "joined below",
  },
};

/** A button that cuts the call tree at the selected call path. */
export function CutTool({ model }) {
  const selected = model.trees.calls.selection();
  const node = selected.length === 1 ? selected[0][0] : -1;
  const { forest } = model.view;
  const possible = {
    root: node >= 0 && (forest.parent[node] >= 0 || forest.children(-1).length > 1),
    prune: node >= 0 && forest.parent[node] >= 0,
    loop: node >= 0 && !forest.isLeaf(node),
  };
  return (
    <Menu
      icon="cut"
      title="Cut the call tree: only a subtree, without one, or instances joined"
      label="Cut the call tree"
      head={node >= 0 ? model.view.name(node) : "Select one call path first"}
      choices={Object.entries(WAYS).map(([how, { title, hint }]) => ({
        title,
        hint,
        disabled: !possible[how],
        act: () => model.mark(how, node),
      }))}
    />
  );
}

/** How the call tree is cut, and the way back. */
export function Marks({ model }) {
  const { cube, view } = model;
  if (view.isWhole) return null;
  const { root, pruned, loops } = view.marks;
  const chips = [...(root >= 0 ? [["root", root]] : []), ...pruned.map((i) => ["prune", i]), ...loops.map((i) => ["loop", i])];
  return (
    <div class="tc-marks" role="group" aria-label="How the call tree is cut">
      {chips.map(([how, call]) => (
        <button
          type="button"
          class="tc-chip"
          title={`${cube.path(call).join(" \u203a ")}\nClick to undo`}
          onClick={() => model.unmark(how, call)}
        >
          <span>{WAYS[how].chip}</span> {cube.callName(call)} {"\u00d7"}
        </button>
      ))}
      <button type="button" class="tc-chip" onClick={() => model.setMarks(null)}>
        Show the whole tree
      </button>
    </div>
  );
}
