// Build the scripts and style sheets of the report (viewer.js, viewer.css) and of the timeline (timeline.js, timeline.css) from
// their folders src/ with esbuild; --check says whether those that are committed are up to date.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const NAMES = ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "license", "license.md"];

// the texts of licences whose packages were published without one, from their repositories
const { default: WITHOUT } = await import("./licences.js");

function licence(name) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = NAMES.map((n) => join(folder, n)).find(existsSync);
  const text = file ? readFileSync(file, "utf8") : WITHOUT[name];
  if (!text) throw new Error(`${name} has no licence text: add it to licences.js`);
  return `${name} ${version} (${license})\n\n${text.trim().replace(/\r/g, "")}\n`;
}

/** What the output was built from: a hash that tests compare without node. */
function sources(folder) {
  const hash = createHash("sha256");
  const add = (name, path) => hash.update(`${name}\n`).update(readFileSync(path)).update("\n");
  for (const name of readdirSync(join(folder, "src")).sort()) add(`src/${name}`, join(folder, "src", name));
  for (const name of ["build.js", "licences.js", "package-lock.json"]) add(name, join(here, name));
  return hash.digest("hex");
}

/** Build a script and a style sheet; returns their paths and texts. */
async function made(folder, entry, name, where) {
  const common = { bundle: true, minify: true, write: false, charset: "utf8", absWorkingDir: folder };
  const script = await build({
    ...common,
    entryPoints: [`src/${entry}`],
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    metafile: true,
  });
  const style = await build({ ...common, entryPoints: ["src/style.css"], target: "chrome111" });
  const packages = new Set();
  for (const input of Object.keys(script.metafile.inputs)) {
    const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/);
    if (found) packages.add(found[1]);
  }
  const licences = [...packages]
    .sort()
    .map(licence)
    .join(`\n${"-".repeat(80)}\n\n`);
  if (licences.includes("*/")) throw new Error("a licence text ends the comment it stands in");
  const contains = licences ? `\n\nIt contains:\n\n${licences}` : " ";
  const head = `/* tracecols ${name}, BSD-3-Clause. Built by report/viewer/build.js; sources ${sources(folder)}${contains}*/\n`;
  const texts = [head + script.outputFiles[0].text, style.outputFiles[0].text];
  if (texts.some((text) => text.includes("</script") || text.includes("</style")))
    throw new Error("the output would end the element it stands in");
  return { [join(where, `${name}.js`)]: texts[0], [join(where, `${name}.css`)]: texts[1] };
}

const timeline = join(here, "..", "..", "timeline");
const outputs = {
  ...(await made(here, "index.jsx", "viewer", here)),
  ...(await made(timeline, "index.js", "timeline", timeline)),
};

let stale = false;
for (const [file, text] of Object.entries(outputs)) {
  const name = basename(file);
  if (process.argv.includes("--check")) {
    if (!existsSync(file) || readFileSync(file, "utf8") !== text) {
      console.error(`${name} is out of date: run npm ci && npm run build in ${here}`);
      stale = true;
    }
  } else {
    writeFileSync(file, text);
    console.log(`${name}  ${(text.length / 1024).toFixed(1)} KiB`);
  }
}
process.exit(stale ? 1 : 0);
