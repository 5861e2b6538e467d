// Build viewer.js and viewer.css from src/ with esbuild; --check says whether those that are committed are up to date.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
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
function sources() {
  const hash = createHash("sha256");
  const files = [
    ...readdirSync(join(here, "src"))
      .sort()
      .map((n) => `src/${n}`),
    "build.js",
    "licences.js",
    "package-lock.json",
  ];
  for (const file of files)
    hash
      .update(`${file}\n`)
      .update(readFileSync(join(here, file)))
      .update("\n");
  return hash.digest("hex");
}

const common = { bundle: true, minify: true, write: false, charset: "utf8", absWorkingDir: here };
const script = await build({
  ...common,
  entryPoints: ["src/index.jsx"],
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
const head = `/* tracecols viewer, BSD-3-Clause. Built by report/viewer/build.js; sources ${sources()}\n\nIt contains:\n\n${licences}*/\n`;
const outputs = { "viewer.js": head + script.outputFiles[0].text, "viewer.css": style.outputFiles[0].text };
if (outputs["viewer.js"].includes("</script") || outputs["viewer.css"].includes("</style"))
  throw new Error("the output would end the element it stands in");

let stale = false;
for (const [name, text] of Object.entries(outputs)) {
  const file = join(here, name);
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
