import { useEffect, useRef, useState } from "preact/hooks";
import { Tool } from "./icons.jsx";
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
 * @param {{pane: string, label: string, table: () => (string | number)[][]}} props `table` makes the table of what the pane shows
 */
export function Save({ model, pane, label, table }) {
  const [open, setOpen] = useState(false);
  const place = useRef();
  useEffect(() => {
    if (!open) return;
    const outside = (event) => place.current?.contains(event.target) || setOpen(false);
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const save = async (ending, make) => {
    setOpen(false);
    const name = fileName(model, model.title, pane, ending);
    try {
      download(name, await make());
      model.say(`Saved ${name}`);
    } catch (error) {
      model.say(`Cannot be saved: ${error.message}`);
    }
    model.emit();
  };
  const picture = () => {
    const { properties, callPaths } = selectionTexts(model);
    const caption = [model.title, label, properties.join(" + "), callPaths.join(" + ")].filter(Boolean).join(" \u00b7 ");
    return svgOf(place.current.closest("[data-pane]"), caption);
  };
  const csv = (rows) => new Blob([commaSeparated(rows)], { type: "text/csv" });
  const ways = [
    ["Picture (PNG)", "png", () => pngOf(picture())],
    ["Picture (SVG)", "svg", () => new Blob([picture()], { type: "image/svg+xml" })],
    [`${label}: table (CSV)`, "csv", () => csv(table())],
    ["Selection by location (CSV)", "selection.csv", () => csv(selectionTable(model))],
  ];
  return (
    <span class="tc-anchor" ref={place} onKeyDown={(event) => event.key === "Escape" && open && (event.stopPropagation(), setOpen(false))}>
      <Tool icon="save" title={`Save ${label.toLowerCase()}: picture or table`} on={open} onClick={() => setOpen(!open)} />
      {open && (
        <span class="tc-menu" role="menu" aria-label={`Save ${label.toLowerCase()}`}>
          {ways.map(([title, ending, make]) => (
            <button type="button" role="menuitem" onClick={() => save(ending, make)}>
              {title}
            </button>
          ))}
        </span>
      )}
    </span>
  );
}
