"""Monitoring: lag, metrics, health and the server that shows them, for the pipelines of this process."""
