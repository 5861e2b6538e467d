import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { SCALES } from "./colours.js";
import { copyText } from "./copy.js";
import { CallDetails, PropertyDetails, SystemDetails } from "./details.jsx";
import { Distribution } from "./distribution.jsx";
import { Help, Notes } from "./help.jsx";
import { Choice, Tool } from "./icons.jsx";
import { MODES } from "./model.js";
import { count } from "./numbers.js";
import { Overview } from "./overview.jsx";
import { TreePane } from "./pane.jsx";
import { Strip } from "./ranges.jsx";
import { Time, timelineAddress } from "./time.jsx";
import { Topology } from "./topology.jsx";

const THEMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };
function remembered(key) {
  try {
    return localStorage.getItem(`tracecols-${key}`);
  } catch {
    return null;
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(`tracecols-${key}`, value);
  } catch {
    // pages opened from a disk may have no storage; the choice holds until the page is closed
  }
}

/** Dark or light: as chosen, else as the notebook, else as the system. */
function useTheme() {
  const [theme, setTheme] = useState(() => (remembered("theme") in THEMES ? remembered("theme") : "auto"));
  const query = window.matchMedia("(prefers-color-scheme: dark)");
  const [system, setSystem] = useState(query.matches);
  useEffect(() => {
    const listen = (event) => setSystem(event.matches);
    query.addEventListener("change", listen);
    return () => query.removeEventListener("change", listen);
  }, []);
  const notebook = document.body.dataset.jpThemeLight;
  const dark = theme === "auto" ? (notebook ? notebook === "false" : system) : theme === "dark";
  const next = () => {
    const names = Object.keys(THEMES);
    const chosen = names[(names.indexOf(theme) + 1) % names.length];
    remember("theme", chosen);
    setTheme(chosen);
  };
  return { theme, dark, next };
}

/** A bar between two columns that can be dragged. */
function Splitter({ onMove, label }) {
  return (
    <div
      class="tc-splitter"
      role="separator"
      aria-orientation="vertical"
      aria-label={label}
      tabIndex={0}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        event.preventDefault();
      }}
      onPointerMove={(event) => event.currentTarget.hasPointerCapture(event.pointerId) && onMove(event.movementX)}
      onKeyDown={(event) => {
        const step = { ArrowLeft: -24, ArrowRight: 24 }[event.key];
        if (step) onMove(step);
      }}
    />
  );
}

function Settings({ model }) {
  const { settings } = model;
  return (
    <div class="tc-popup" role="dialog" aria-label="Colours">
      <fieldset>
        <legend>Colours</legend>
        {Object.entries(SCALES).map(([key, { title }]) => (
          <label class="tc-scale">
            <input
              type="radio"
              name="tc-scale"
              checked={settings.scale === key}
              onChange={() => (remember("scale", key), model.set({ scale: key }))}
            />
            <Strip model={{ look: () => ({ ...model.look(), scale: key }), settings }} threshold={0} />
            <span>{title}</span>
          </label>
        ))}
        <p class="tc-muted">Viridis and Cividis are made for eyes that do not tell red from green.</p>
      </fieldset>
      <label>
        Grey below{" "}
        <input
          type="number"
          min="0"
          max="100"
          step="0.1"
          value={100 * settings.threshold}
          onChange={(event) => {
            const percent = Number(event.currentTarget.value);
            if (percent >= 0 && percent <= 100) model.set({ threshold: percent / 100 });
          }}
        />{" "}
        %
      </label>
    </div>
  );
}

const CALL_TABS = { tree: { title: "Call tree" }, flat: { title: "Flat", hint: "by region, on whatever call path" } };
const PLACES = {
  subdomains: { title: "Subdomains", hint: "parts of the application, as its user says" },
  machine: { title: "Machine", hint: "machines, nodes and processes" },
};
const SYSTEM_TABS = { tree: { title: "System" }, topology: { title: "Topology" }, distribution: { title: "Distribution" } };

/** The whole view: three coupled trees (thesis 4.5). */
export function App({ model, links, page }) {
  const [, redraw] = useReducer((n) => n + 1, 0);
  useLayoutEffect(() => model.subscribe(redraw), [model]);
  const { theme, dark, next } = useTheme();
  model.dark = dark;
  const [shares, setShares] = useState([1.05, 1.35, 1.15]);
  const [popup, setPopup] = useState("");
  const [overview, setOverview] = useState(() => page && remembered("overview") !== "hidden");
  // a link that is scoped to periods shows them
  useMemo(() => model.showTime(Boolean(model.scope) || (page && remembered("time") !== "hidden")), [model]);
  const time = model.showsTime;
  const root = useRef();
  const columns = useRef();
  const { cube, settings } = model;
  const { header } = cube;
  useEffect(() => {
    const scale = remembered("scale");
    if (scale in SCALES) model.set({ scale });
    // the notebook says its theme on the body
    const observer = new MutationObserver(redraw);
    observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
    return () => observer.disconnect();
  }, []);
  // keys work from the start
  useEffect(() => {
    if (!page || !model.trees.properties.rows.length) return;
    model.trees.properties.tree.updateDomFocus();
    // on a low screen the tree lies below the overview: the page begins at its top nevertheless
    const stay = () => window.scrollTo(0, 0);
    const focused = (event) => (stay(), event.currentTarget.removeEventListener("focusin", focused));
    root.current.addEventListener("focusin", focused);
  }, []);
  const move = (left) => (pixels) => {
    const widths = [0, 2, 4].map((k) => columns.current.children[k].getBoundingClientRect().width);
    const [a, b] = [widths[left] + pixels, widths[left + 1] - pixels];
    if (a < 160 || b < 160) return;
    widths[left] = a;
    widths[left + 1] = b;
    setShares(widths);
  };
  const keys = (event) => {
    if (event.key === "Escape" && popup) {
      setPopup("");
      event.preventDefault();
      return;
    }
    if (
      event.target instanceof HTMLInputElement ||
      event.target instanceof HTMLSelectElement ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey
    )
      return;
    const mode = Object.keys(MODES)[Number(event.key) - 1];
    if (mode) model.set({ mode });
    else if (event.key === "?") setPopup("help");
    else return;
    event.preventDefault();
  };
  const tab = (label, options, key) => (
    <Choice label={label} options={options} value={settings[key]} onChange={(value) => model.set({ [key]: value })} />
  );
  const systemTabs = tab("View of locations", SYSTEM_TABS, "system");
  const link = async () => {
    model.say((await copyText(location.href.split("#")[0] + links.write())) ? "Link copied" : "The browser does not allow copying");
    model.emit();
  };
  const notes = Object.entries(header.notes).filter(([, n]) => n > 0);
  return (
    <div
      ref={root}
      class={`tracecols ${dark ? "tc-dark" : "tc-light"}${page ? " tc-page" : " tc-inline"}${time ? " tc-with-time" : ""}`}
      data-busy={model.busy ? "" : undefined}
      onKeyDown={keys}
      // notebooks have keys of their own, which must not act while this view has the focus
      data-lm-suppress-shortcuts="true"
    >
      <header class="tc-header">
        <h1 title={header.source}>{model.title}</h1>
        <span class="tc-muted tc-summary">
          {header.summary}
          {header.n_events ? `, ${count(header.n_events, "event")}` : ""}
        </span>
        <div class="tc-controls-main">
          <Choice label="Numbers" options={MODES} value={settings.mode} onChange={(mode) => model.set({ mode })} />
          <span class="tc-anchor">
            <Tool
              icon="palette"
              title="Colours"
              on={popup === "settings"}
              onClick={() => setPopup(popup === "settings" ? "" : "settings")}
            />
            {popup === "settings" && <Settings model={model} />}
          </span>
          {header.overview && (
            <Tool
              icon="overview"
              title="Overview: what costs most"
              on={overview}
              onClick={() => {
                remember("overview", overview ? "hidden" : "shown");
                setOverview(!overview);
              }}
            />
          )}
          {header.periods && (
            <Tool
              icon="time"
              title="Time: when it happened"
              on={time}
              onClick={() => {
                remember("time", time ? "hidden" : "shown");
                model.showTime(!time);
              }}
            />
          )}
          {header.opened && (
            <Tool
              icon="timeline"
              title="Show the selection in the timeline"
              onClick={() => window.open(timelineAddress(model), `timeline-${location.pathname.split("/").slice(1, -1).join("-")}`)}
            />
          )}
          {page && <Tool icon="link" title="Copy a link to this selection" onClick={link} />}
          <Tool icon={theme} title={THEMES[theme]} onClick={next} />
          <Tool icon="help" title="Help (?)" onClick={() => setPopup("help")} />
        </div>
      </header>
      {model.error && (
        <p class="tc-error" role="alert">
          {model.error}
        </p>
      )}
      {header.overview && overview && <Overview model={model} />}
      <main
        class="tc-columns"
        ref={columns}
        style={{ gridTemplateColumns: `minmax(0, ${shares[0]}fr) 5px minmax(0, ${shares[1]}fr) 5px minmax(0, ${shares[2]}fr)` }}
      >
        <div class="tc-column" data-pane="properties">
          <TreePane model={model} pane="properties" label="Properties" tools={<h2>Properties</h2>} />
          <PropertyDetails model={model} />
        </div>
        <Splitter label="Width of properties" onMove={move(0)} />
        <div class="tc-column" data-pane="calls">
          <TreePane
            key={`${settings.calls} ${JSON.stringify(model.view.marks)}`}
            model={model}
            pane="calls"
            label={settings.calls === "flat" ? "Regions" : "Call tree"}
            tools={tab("View of call paths", CALL_TABS, "calls")}
          />
          <CallDetails model={model} />
        </div>
        <Splitter label="Width of call paths" onMove={move(1)} />
        <div class="tc-column" data-pane="system">
          {settings.system === "tree" && (
            <TreePane
              key={settings.places}
              model={model}
              pane="system"
              label="System tree"
              tools={systemTabs}
              controls={cube.systems.subdomains && tab("Places", PLACES, "places")}
            />
          )}
          {settings.system === "topology" && <Topology model={model} tools={systemTabs} />}
          {settings.system === "distribution" && <Distribution model={model} tools={systemTabs} />}
          <SystemDetails model={model} />
        </div>
      </main>
      {time && <Time model={model} />}
      <footer class="tc-footer">
        <span class="tc-legend">
          <span>{cube.isDifference ? "\u2212100 %" : "0"}</span>
          <Strip model={model} />
          <span>100 %</span>
        </span>
        <span class="tc-muted">{model.hint()}</span>
        <span class="tc-gap" />
        <span role="status" class="tc-message">
          {model.busy ? "Reading values\u2026" : model.message}
        </span>
        {notes.length > 0 && !model.message && !model.busy && (
          <button
            type="button"
            class="tc-notes"
            title={notes.map(([what, n]) => `${n.toLocaleString("en")} ${what}`).join("\n")}
            onClick={() => setPopup("notes")}
          >
            {count(notes.length, "note")} of the analysis
          </button>
        )}
        <span class="tc-muted">{header.writer}</span>
      </footer>
      {popup === "notes" && <Notes notes={notes} close={() => setPopup("")} />}
      {popup === "help" && <Help close={() => setPopup("")} />}
    </div>
  );
}
