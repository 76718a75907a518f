// Asks with Claude Code, without a person: `claude -p`. node ask.mjs BASE MODEL messages streamed|tools
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const [BASE, MODEL, , way] = process.argv.slice(2);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

const settings = readFileSync(here("env.sh"), "utf8").replace(/\bBASE\b/, BASE).replace(/\bMODEL\b/g, MODEL);
const env = Object.fromEntries([...settings.matchAll(/^export (\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]));
const more = way === "tools" ? ["--allowedTools", "Bash(echo:*)"] : [];

process.stdout.write("asking\n");
const { status, stdout, stderr } = spawnSync(
  here("node_modules/.bin/claude"),
  ["-p", "hello", "--output-format", "json", ...more],
  { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } },
);
if (status !== 0) throw new Error(`claude ended with ${status}: ${stdout} ${stderr}`);
const said = JSON.parse(stdout);
if (said.is_error) throw new Error(stdout);
process.stdout.write(JSON.stringify({ text: said.result, events: [] }) + "\n");
