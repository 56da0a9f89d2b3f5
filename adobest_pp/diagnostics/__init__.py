"""Is the sampling right? Functions of draws, never of samplers; each returns a labelled Dataset."""
