"""All benchmarks, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

for name in ("line", "translation", "streams", "goodbye", "affinity", "simulation", "cluster"):
    sys.stdout.write(f"\n== {name}\n")
    sys.stdout.flush()
    subprocess.run([sys.executable, Path(__file__).with_name(f"{name}.py")], check=True)
