"""Replay of dead letters through the pipeline's transform."""
