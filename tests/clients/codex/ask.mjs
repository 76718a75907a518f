// Asks with Codex, without a person: `codex exec`. node ask.mjs BASE MODEL responses streamed|tools
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const [BASE, MODEL, , way] = process.argv.slice(2);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

mkdirSync(".codex");
const config = readFileSync(here("config.toml"), "utf8").replace(/\bBASE\b/, BASE).replace(/\bMODEL\b/g, MODEL);
writeFileSync(".codex/config.toml", config);
const more = way === "tools" ? ["--dangerously-bypass-approvals-and-sandbox"] : [];

process.stdout.write("asking\n");
const { status, stdout, stderr } = spawnSync(
  here("node_modules/.bin/codex"),
  ["exec", "--skip-git-repo-check", "--json", ...more, "hello"],
  { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] },
);
const items = stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
const said = items.filter(({ item }) => item?.type === "agent_message");
if (status !== 0 || !said.length) throw new Error(`codex ended with ${status}: ${stdout} ${stderr}`);
process.stdout.write(JSON.stringify({ text: said.at(-1).item.text, events: [] }) + "\n");
