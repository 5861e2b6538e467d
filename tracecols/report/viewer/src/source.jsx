import { useEffect, useState } from "preact/hooks";
import { Dialog } from "./dialog.jsx";

/** The lines of a region and around it, as far as they are in the report. */
function SourceLines({ cube, region, close }) {
  const { regions, sources } = cube.header;
  const [file, first, last] = [regions.file[region], regions.line[region], sources.end_line[region]];
  const [lines, setLines] = useState(null);
  useEffect(() => {
    cube
      .sourcesOf(file)
      .then((stretches) => setLines(stretches.find(([from, some]) => from <= first && first < from + some.length) ?? [0, []]))
      .catch((error) => setLines([0, [`The lines cannot be read: ${error.message}`]]));
  }, [file, first]);
  const [from, some] = lines ?? [0, []];
  // as many as belong to it, and some around
  const until = (last >= first ? last : first + 25) + 3;
  const shown = some.map((text, k) => [from + k, text]).filter(([n]) => n >= first - 3 && n <= until);
  return (
    <Dialog label={`Source of ${regions.name[region]}`} close={close} wide>
      <h2>{regions.name[region]}</h2>
      <p class="tc-source">
        {file}:{first}
        {last > first ? `\u2013${last}` : ""}
      </p>
      <ol class="tc-lines">
        {shown.map(([n, text]) => (
          <li class={n >= first && n <= Math.max(first, last) ? "tc-own" : undefined}>
            <span>{n}</span>
            <code>{text || " "}</code>
          </li>
        ))}
      </ol>
      {lines && !shown.length && <p class="tc-muted">The file that was found has no line {first}: it is of another version.</p>}
      {last > (shown[shown.length - 1]?.[0] ?? last) && <p class="tc-muted">and so on to line {last}</p>}
    </Dialog>
  );
}

/** A button that shows the source of a region, if the report has it. */
export function Source({ cube, region }) {
  const [open, setOpen] = useState(false);
  const { regions, sources } = cube.header;
  if (!sources?.files.includes(regions.file[region]) || !(regions.line[region] > 0)) return null;
  return (
    <>
      {" "}
      <button type="button" class="tc-notes" onClick={() => setOpen(true)}>
        source
      </button>
      {open && <SourceLines cube={cube} region={region} close={() => setOpen(false)} />}
    </>
  );
}
