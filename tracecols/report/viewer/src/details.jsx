import { Source } from "./source.jsx";
import { full, percent, withUnit } from "./numbers.js";

/** A value and its share of the whole, as the tree shows them. */
function Amount({ model, value, whole, unit, of }) {
  return (
    <p class="tc-amount" title={full(value, unit)}>
      <b>{model.number(value, withUnit(value, unit))}</b>
      {whole ? (
        <span>
          {model.number(value, percent(value / whole))} %{of ? ` of ${of}` : ""}
        </span>
      ) : null}
    </p>
  );
}

const Several = ({ n, what }) => (
  <h3>
    {n} {what} <small>together</small>
  </h3>
);

/* A small time line of the wait state. The picture is made by the package of a program of its own, not of names in the trace. */
function Drawing({ shown }) {
  if (!shown) return null;
  return (
    <details class="tc-drawing">
      <summary>What it looks like</summary>
      <figure>
        <div dangerouslySetInnerHTML={{ __html: shown.svg }} />
        <figcaption>{shown.caption}</figcaption>
      </figure>
    </details>
  );
}

export function PropertyDetails({ model }) {
  const { properties } = model.cube.header;
  const selection = model.selection();
  if (!selection.length) return null;
  const [node, open] = selection[0];
  const total = model.selectedTotal();
  const whole = model.whole("properties", node);
  const base =
    properties.title[
      whole === model.totals.whole[model.time(node)] && model.isTime(model.cube.properties.root(node))
        ? model.time(node)
        : model.cube.properties.root(node)
    ];
  return (
    <section class="tc-details" aria-label="Selected property">
      {selection.length > 1 ? (
        <Several n={selection.length} what="properties" />
      ) : (
        <h3>
          {properties.title[node]} <small>{properties.id[node]}</small>
        </h3>
      )}
      <Amount model={model} value={total} whole={whole} unit={properties.unit[node]} of={base} />
      {selection.length > 1 ? (
        <p>{selection.map(([i]) => properties.title[i]).join(", ")}</p>
      ) : (
        <>
          <p>
            {properties.summary[node]}
            {open ? " Shown without the properties below it." : ""}
            {model.isComputed("properties", node) ? " Every row has the value of the formula for its own sums." : ""}
          </p>
          {properties.advice[node] && <p class="tc-advice">{properties.advice[node]}</p>}
          <Drawing shown={model.cube.header.drawings?.[properties.id[node]]} />
          {properties.confidence[node] < 1 && (
            <p class="tc-muted">
              Confidence {percent(properties.confidence[node]).replace(".00", "")} %: a match makes this behaviour likely, not certain.
            </p>
          )}
        </>
      )}
    </section>
  );
}

export function CallDetails({ model }) {
  const { cube } = model;
  const { regions } = cube.header;
  const flat = model.settings.calls === "flat";
  const selection = model.callTree.selection();
  const unit = model.unit("calls", 0);
  const whole = model.whole("calls", selection[0]?.[0] ?? 0);
  if (!selection.length)
    return (
      <section class="tc-details" aria-label="Selected call path">
        <h3>All call paths</h3>
        <Amount
          model={model}
          value={model.selectedTotal()}
          whole={model.whole("system", 0, model.settings.mode === "relative" ? "absolute" : model.settings.mode)}
          unit={unit}
        />
        <p class="tc-muted">
          {model.selectedTotal() === 0 && model.selection().some(([, open]) => open)
            ? "The selected property is open and has nothing of its own: close it to see all of it, or select one below it."
            : "Select a call path to see its locations."}
        </p>
      </section>
    );
  const [node] = selection[0];
  const call = flat ? cube.flat.call[node] : model.view.callOf(node);
  const region = flat ? cube.flat.region[node] : cube.regionOf[call];
  const { own, inclusive } = model.values("calls");
  const file = regions.file[region];
  const site = call >= 0 ? cube.callSite(call) : "";
  return (
    <section class="tc-details" aria-label="Selected call path">
      {selection.length > 1 ? (
        <Several n={selection.length} what={flat ? "entries" : "call paths"} />
      ) : (
        <h3>
          {regions.name[region]}{" "}
          <small>
            {regions.paradigm[region]}
            {regions.role[region] && regions.role[region] !== "function" ? `, ${regions.role[region].replace(/_/g, " ")}` : ""}
          </small>
        </h3>
      )}
      <Amount model={model} value={model.selectedValue()} whole={whole} unit={unit} />
      {selection.length === 1 && (
        <>
          {!flat && !model.view.forest.isLeaf(node) && (
            <p class="tc-muted">
              itself {withUnit(own[node], unit)}, with what it calls {withUnit(inclusive[node], unit)}
            </p>
          )}
          {flat && call < 0 && <p class="tc-muted">on {cube.flat.children(node).length} call paths</p>}
          {(/[./\\]/.test(file) || cube.header.sources?.files.includes(file)) && (
            <p class="tc-source">
              {file}
              {regions.line[region] > 0 ? `:${regions.line[region]}` : ""}
              <Source cube={cube} region={region} />
            </p>
          )}
          {site && <p class="tc-source">called from {site}</p>}
          {call >= 0 && <p class="tc-path">{cube.path(call).join(" \u203a ")}</p>}
        </>
      )}
    </section>
  );
}

export function SystemDetails({ model }) {
  const { cube, place } = model;
  const unit = model.unit("system", 0);
  const selection = model.trees.system.selection();
  const value = selection.length ? model.together("system", selection) : model.selectedValue();
  const whole = model.whole("system", selection[0]?.[0] ?? 0);
  const values = model.byLocation;
  // what was saved is a change as well as what was added
  const size = cube.isDifference ? Math.abs : (v) => v;
  let most = 0;
  let sum = 0;
  for (let i = 0; i < values.length; i++) {
    sum += values[i];
    if (size(values[i]) > size(values[most]) || Number.isNaN(values[most])) most = i;
  }
  const [first] = selection;
  return (
    <section class="tc-details" aria-label="Selected locations">
      {selection.length > 1 ? (
        <Several n={selection.length} what="places" />
      ) : first ? (
        <h3>
          {model.systemLabel(first[0])}{" "}
          <small>{place.location[first[0]] >= 0 ? model.locationLabel(place.location[first[0]]) : place.kind[first[0]]}</small>
        </h3>
      ) : (
        <h3>{cube.nLocations === 1 ? "The only location" : `All ${cube.nLocations.toLocaleString("en")} locations`}</h3>
      )}
      <Amount model={model} value={value} whole={whole} unit={unit} />
      {values.length > 1 && sum !== 0 && (
        <p class="tc-muted">
          {model.isComputed("system") ? "" : `mean ${withUnit(sum / values.length, unit)} per location, `}largest{" "}
          {cube.isDifference ? "change " : ""}
          {withUnit(values[most], unit)} at {model.locationLabel(most)}
        </p>
      )}
    </section>
  );
}
