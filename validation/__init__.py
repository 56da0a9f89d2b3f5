"""Programs that check the claims of the paper and of this project: one file each, which returns its findings."""
