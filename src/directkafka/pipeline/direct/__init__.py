"""The direct engine: batches that the driver plans, one behind the other."""
