"""Direct streams: DStreams over explicit offsets."""
