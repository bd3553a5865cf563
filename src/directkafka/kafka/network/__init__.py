"""Connections to brokers: made, secured, logged in, kept, and read from."""
