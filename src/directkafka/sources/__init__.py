"""Former module names that Spark settings of users may say; the code is in :mod:`directkafka.spark`."""
