"""The ledger: places that can commit atomically."""
