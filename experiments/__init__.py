"""What can be claimed only after it has been measured: privacy against utility."""
