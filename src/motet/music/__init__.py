"""music."""
