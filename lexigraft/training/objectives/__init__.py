"""What training makes small: one file for each objective."""
