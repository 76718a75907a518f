// Asks with opencode, without a person: `opencode run`. node ask.mjs BASE MODEL messages|chat streamed|tools
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const [BASE, MODEL, surface, way] = process.argv.slice(2);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

const config = readFileSync(here(`${surface}.json`), "utf8").replace(/\bBASE\b/, BASE).replace(/\bMODEL\b/g, MODEL);
writeFileSync("opencode.json", config);
const more = way === "tools" ? ["--auto"] : [];

process.stdout.write("asking\n");
// With a title given, it does not ask the model for one beside the question.
const { status, stdout, stderr } = spawnSync(
  here(`node_modules/opencode-linux-${process.arch}/bin/opencode`),
  ["run", "--model", `slotline/${MODEL}`, "--title", "hello", "--format", "json", ...more, "hello"],
  { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] },
);
const parts = stdout.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
const said = parts.filter(({ type }) => type === "text");
if (status !== 0 || !said.length) throw new Error(`opencode ended with ${status}: ${stdout} ${stderr}`);
process.stdout.write(JSON.stringify({ text: said.at(-1).part.text, events: [] }) + "\n");
