import { render as draw } from "preact";
import { App } from "./app.jsx";
import { Cube, fromBase64, inflate } from "./cube.js";
import { Links } from "./link.js";
import { Model } from "./model.js";

const parse = async (bytes) => JSON.parse(new TextDecoder().decode(await inflate(bytes)));

/** A block of a page; those that stand further down may not have arrived yet. */
async function fromPage(number) {
  const id = `tracecols-block-${number}`;
  // an element is complete when something follows it
  while (document.readyState === "loading" && !document.getElementById(id)?.nextElementSibling)
    await new Promise((go) => setTimeout(go, 20));
  const element = document.getElementById(id);
  if (!element) throw new Error(`the file is not complete: ${id} is missing`);
  return fromBase64(element.textContent);
}

/** A report: everything is in the document. */
async function openPage(place) {
  const cube = new Cube(await parse(fromBase64(document.getElementById("tracecols-header").textContent)), fromPage);
  const model = new Model(cube, place.dataset.title);
  const links = new Links(model);
  if (!links.read(location.hash) && cube.header.opened) model.open(cube.header.opened);
  let written = location.hash;
  const write = () => {
    const fragment = links.write();
    if (fragment === written) return;
    written = fragment;
    history.replaceState(null, "", fragment);
  };
  model.onSelection = write;
  model.onSettings = write;
  addEventListener("hashchange", () => {
    if (location.hash !== written) links.read((written = location.hash));
  });
  place.replaceChildren();
  draw(<App model={model} links={links} page />, place);
  place.view = { cube, model, links };
}

/** The widget's bytes: number of parts, their lengths (uint32), the parts; the first is the header. */
function parts(view) {
  const n = view.getUint32(0, true);
  const found = [];
  let at = 4 + 4 * n;
  for (let i = 0; i < n; i++) {
    const length = view.getUint32(4 + 4 * i, true);
    found.push(new Uint8Array(view.buffer, view.byteOffset + at, length));
    at += length;
  }
  return found;
}

/** A widget in a notebook (anywidget). */
async function render({ model: notebook, el }) {
  const [header, ...blocks] = parts(notebook.get("data"));
  const model = new Model(new Cube(await parse(header), async (number) => blocks[number]), notebook.get("title"));
  const { id } = model.cube.header.properties;
  const place = document.createElement("div");
  place.className = "tracecols-widget";
  place.style.height = `${notebook.get("height")}px`;
  el.append(place);
  model.onSelection = () => {
    const mask = model.mask();
    notebook.set("selection", {
      properties: model.selection().map(([node, open]) => [id[node], open]),
      call_paths: [...mask.keys()].filter((i) => mask[i]),
      periods: model.scope,
    });
    notebook.save_changes();
  };
  draw(<App model={model} />, place);
  return () => draw(null, place);
}

export default { render };

const place = typeof document === "undefined" ? null : document.getElementById("tracecols");
if (place)
  openPage(place).catch((error) => {
    place.textContent = `This report cannot be shown: ${error.message}`;
    console.error(error);
  });
