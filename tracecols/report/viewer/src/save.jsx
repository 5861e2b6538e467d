import { Menu } from "./menu.jsx";
import { pngOf, svgOf } from "./svg.js";
import { commaSeparated, selectionTable, selectionTexts } from "./tables.js";

const LONGEST = 120;

/** The name of a file: what was measured, which pane, and what is selected. */
export function fileName(model, title, pane, ending) {
  const { properties, callPaths } = selectionTexts(model);
  const scope = model.scope ? [`${model.cube.periods.kind}${model.scope.join("-")}`] : [];
  const parts = [title || "cube", pane, properties.join("+"), ...callPaths.map((path) => path.split("/").slice(-2).join("-")), ...scope];
  const name = parts
    .map((part) => part.replace(/[^\p{L}\p{N}_.+=-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, ""))
    .filter(Boolean)
    .join(".");
  return `${[...name].slice(0, LONGEST).join("")}.${ending}`;
}

/** Let the browser save a file. */
function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * A button that saves the pane it stands in, as a picture or as a table.
 * @param {{pane: string, label: string, table: () => (string | number)[][], unroll?: () => Promise<{note: string, restore: () => void}>}} props
 *   `table` makes the table of what the pane shows; `unroll` lets it show what is beyond the screen as well
 */
export function Save({ model, pane, label, table, unroll }) {
  const save = async (ending, make) => {
    const name = fileName(model, model.title, pane, ending);
    try {
      download(name, await make());
      model.say(`Saved ${name}`);
    } catch (error) {
      model.say(`Cannot be saved: ${error.message}`);
    }
    model.emit();
  };
  const picture = async (inside) => {
    const { properties, callPaths } = selectionTexts(model);
    const { note, restore } = (await unroll?.()) ?? { note: "" };
    const caption = [model.title, label, properties.join(" + "), callPaths.join(" + "), note].filter(Boolean).join(" \u00b7 ");
    try {
      return svgOf(inside.closest("[data-pane]"), caption);
    } finally {
      restore?.();
    }
  };
  const csv = (rows) => new Blob([commaSeparated(rows)], { type: "text/csv" });
  const ways = [
    ["Picture (PNG)", "png", async (inside) => pngOf(await picture(inside))],
    ["Picture (SVG)", "svg", async (inside) => new Blob([await picture(inside)], { type: "image/svg+xml" })],
    [`${label}: table (CSV)`, "csv", () => csv(table())],
    ["Selection by location (CSV)", "selection.csv", () => csv(selectionTable(model))],
  ];
  return (
    <Menu
      icon="save"
      title={`Save ${label.toLowerCase()}: picture or table`}
      label={`Save ${label.toLowerCase()}`}
      choices={ways.map(([title, ending, make]) => ({ title, act: (inside) => save(ending, () => make(inside)) }))}
    />
  );
}
