"""`python -m slotline` is the same as `slotline`."""

from slotline.cli import main

main(prog_name="slotline")
