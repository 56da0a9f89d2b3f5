"""Read, count and store the answers of any number of files."""
