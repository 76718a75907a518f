"""Becomes another program, one that ends with whoever started it: `python -P tied.py PARENT PROGRAM [ARGUMENT …]`.

PARENT is the process id of the one who is to be outlived by nothing. Linux itself then ends the program, also when the
parent is killed and cannot end anything (prctl(2), PR_SET_PDEATHSIG, which survives execve(2)). Elsewhere a program
whose parent is killed goes on.

It is run by its path, so that it starts without the rest of the command line.
"""

from __future__ import annotations

import os
import signal
import sys

from slotline.upstream.engine_child import end_with_parent


def main() -> None:
    """Does it."""
    parent, program, *arguments = sys.argv[1:]
    end_with_parent(signal.SIGKILL, int(parent))
    os.execvp(program, [program, *arguments])  # noqa: S606 - what else


if __name__ == "__main__":
    main()
