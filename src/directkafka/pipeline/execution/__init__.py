"""What writes a batch: its transform, its jobs, and what their failures mean."""
