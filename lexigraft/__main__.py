"""`python -m lexigraft` runs the command `lexigraft`."""

from lexigraft.commands.app import main

main()
