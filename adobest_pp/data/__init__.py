"""What the collector holds: responses, their files, and their collapsed form. NumPy suffices."""
