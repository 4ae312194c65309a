"""The database of a study: all of its SQL, the writer, and what an operator does with it offline."""
