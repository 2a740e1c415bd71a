"""The command `lexigraft`: `lexigraft.commands.app` lists its commands."""
