"""The writing of a batch: the transform, the jobs that run it, and the meaning of their failures."""
