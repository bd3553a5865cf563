"""The demo's transform: a batch of JSON flights becomes rows, and totals per carrier."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

FLIGHT = "id long, month int, day int, carrier string, origin string, dest string, distance long, arr_delay double"


def transform(source: DataFrame) -> dict[str, DataFrame]:
    """Parse each record's value; sum up what the batch has of each carrier.

    Args:
        source: Kafka records, with the columns of Spark's `kafka` format.

    Returns:
        The outputs that the pipeline file binds to tables by `from`.
    """
    flight = f.from_json(f.col("value").cast("string"), FLIGHT).alias("flight")
    flights = source.select("topic", "partition", "offset", flight).select("topic", "partition", "offset", "flight.*")
    totals = flights.groupBy("carrier").agg(
        f.count("*").alias("flights"),
        f.sum("distance").alias("distance"),
        # Cancelled flights have no delay.
        f.sum(f.coalesce("arr_delay", f.lit(0.0))).cast("long").alias("delay_minutes"),
    )
    return {"flights": flights, "carrier_totals": totals}
