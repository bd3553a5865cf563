"""Payloads: what a record's bytes stand for, decoded to typed Arrow columns in the task that reads them."""
