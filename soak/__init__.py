"""Random faults on a running pipeline, and what they cost: ``make soak MINUTES=10 SEED=1``.

A producer writes numbers to a topic of three brokers; a pipeline reads them into several stores. Meanwhile drivers,
executors, workers, brokers and the database are killed at random. In the end every store is compared with the topic
as an independent client reads it. :mod:`soak.world` has the servers, :mod:`soak.driver` the pipeline's process,
:mod:`soak.faults` what is done to them, :mod:`soak.audit` the comparison.
"""
