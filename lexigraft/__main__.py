"""`python -m lexigraft` is the command `lexigraft`."""

from lexigraft.commands.app import main

main()
