/** Tables of what is shown, for other programs: a list of rows of texts and numbers, the first has the names of the columns. */

/** The name of a row in a tree. */
function nameOf(model, pane, i) {
  return (pane === "calls" && model.settings.calls === "tree" ? model.view.name(i) : model.names(pane, i)[0]) ?? model.flatLabel(i);
}

/** The rows of a tree as they stand; numbers in full. */
export function treeTable(model, pane) {
  const tree = model.tree(pane);
  const rows = tree.rows.map((i) => {
    const whole = model.whole(pane, i);
    const value = model.value(pane, i);
    return [
      tree.forest.depth[i],
      nameOf(model, pane, i),
      value,
      model.unit(pane, i),
      whole ? (100 * value) / whole : "",
      tree.isOpen(i) ? 1 : 0,
    ];
  });
  return [["level", "name", "value", "unit", "percent", "open"], ...rows];
}

/** Ids of the selected properties, and the call paths that are selected; a leading ~ stands for without what is below. */
export function selectionTexts(model) {
  const { id } = model.cube.header.properties;
  const written = (selection, of) => selection.map(([node, open]) => (open ? "~" : "") + of(node));
  return {
    properties: written(model.selection(), (p) => id[p]),
    callPaths: written(model.callTree.selection(), (i) =>
      model.settings.calls === "flat" ? model.flatLabel(i) : model.view.path(i).join("/"),
    ),
  };
}

/** What the selected properties on the selected call paths amount to on each location. */
export function selectionTable(model) {
  const { locations } = model.cube.header;
  const { properties, callPaths } = selectionTexts(model);
  const { scope } = model;
  const periods = scope ? [[`${model.cube.periods.kind}s`], [scope.join("-")]] : [[], []];
  const unit = model.unit("system", 0);
  const rows = Array.from(model.byLocation, (value, row) => [
    properties.join(" + "),
    callPaths.join(" + "),
    ...periods[1],
    locations.rank[row],
    locations.thread[row],
    locations.name[row],
    value,
    unit,
  ]);
  return [["properties", "call_paths", ...periods[0], "rank", "thread", "location", "value", "unit"], ...rows];
}

/** The selection by location and phase or bin, without zeros; of many periods several that follow each other are one row. */
export function periodTable(model) {
  const { byPeriod, cube } = model;
  const { periods } = cube;
  const { locations } = cube.header;
  const seconds = (ticks) => ticks / periods.resolution;
  const n = periods.begin.length;
  const rows = [];
  for (let k = 0; byPeriod && k < byPeriod.columns; k++) {
    const [from, to] = [k * byPeriod.group, Math.min(n, (k + 1) * byPeriod.group) - 1];
    for (let row = 0; row < cube.nLocations; row++) {
      const value = byPeriod.map[row * byPeriod.columns + k];
      if (value)
        rows.push([from, to, seconds(periods.begin[from]), seconds(periods.end[to]), locations.rank[row], locations.thread[row], value]);
    }
  }
  return [[`first_${periods.kind}`, `last_${periods.kind}`, "begin_seconds", "end_seconds", "rank", "thread", "value"], ...rows];
}

/** The text of a cell; a name that spreadsheets would execute as a formula begins with an apostrophe. */
const cellText = (c) => (typeof c === "string" && /^[=+\-@\t\r\n]/.test(c) && Number.isNaN(Number(c)) ? `'${c}` : String(c));

/** Tab-separated, for the clipboard. */
export const tabbed = (rows) => rows.map((cells) => cells.map((c) => cellText(c).replace(/[\t\n\r]/g, " ")).join("\t")).join("\n") + "\n";

/** Comma-separated as in RFC 4180. */
const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
export const commaSeparated = (rows) => rows.map((cells) => cells.map((c) => quoted(cellText(c))).join(",")).join("\r\n") + "\r\n";
