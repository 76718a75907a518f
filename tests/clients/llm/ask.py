"""Asks with `llm`, the command. `python ask.py BASE MODEL chat plain|streamed|tools`."""

import json
import os
import subprocess
import sys
from pathlib import Path

BASE, MODEL, _, way = sys.argv[1:5]
HERE = Path(__file__).parent
LOOKUP = '''
def lookup(query: str) -> str:
    """Looks something up."""
    return "two are free"
'''

folder = Path("llm")
folder.mkdir()
models = (HERE / "extra-openai-models.yaml").read_text().replace("BASE", BASE).replace("MODEL", MODEL)
(folder / "extra-openai-models.yaml").write_text(models)
more = {"plain": ["--no-stream"], "streamed": [], "tools": ["--no-stream", "--functions", LOOKUP]}[way]

print("asking", flush=True)
command = [sys.executable, "-m", "llm", "-m", MODEL, "-o", "max_tokens", "24", *more, "hello"]
env = {**os.environ, "LLM_USER_PATH": str(folder)}
done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
if done.returncode:
    sys.exit(done.stderr or done.returncode)
print(json.dumps({"text": done.stdout.strip(), "events": []}))
