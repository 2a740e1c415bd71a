"""What `lexigraft adapt` does: it chooses a study of one model and one language, and runs it."""
