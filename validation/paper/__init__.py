"""One paper beside its own study: what it states, what the runs say, and its program beside what is proved."""
