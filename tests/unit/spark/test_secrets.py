"""No object of the source shows a secret, and all that travel take it along."""

from __future__ import annotations

import logging
import pickle

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from directkafka.errors import OptionError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange
from directkafka.options.source import SourceOptions
from directkafka.spark.datasource.source import DirectKafkaDataSource

MARK = "geheim"
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
OPTIONS = {
    "subscribe": "flights",
    "kafka.bootstrap.servers": "b:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": f'x.PlainLoginModule required username="ann" password="{MARK}-1";',
    "kafka.ssl.truststore.location": "/trust.jks",
    "kafka.ssl.truststore.password": f"{MARK}-2",
    "kafka.ssl.keystore.location": "/keys.jks",
    "kafka.ssl.keystore.password": f"{MARK}-3",
    "kafka.ssl.key.password": f"{MARK}-4",
}


@pytest.mark.parametrize("streaming", [True, False])
def test_sources_readers_and_tasks_do_not_show_secrets(streaming: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        source = DirectKafkaDataSource(OPTIONS)
        reader = source.streamReader(SCHEMA) if streaming else source.reader(SCHEMA)
    options = SourceOptions.parse(OPTIONS, streaming=streaming)
    task = RangeTask(range=OffsetRange("flights", 0, 0, 1), topic_id="", host="b", port=9092, client=options.client)
    for secret_holder in (source, reader, options, options.client, task):
        assert MARK not in f"{secret_holder!r} {secret_holder}"
    if isinstance(reader, DataSourceStreamReader):
        reader.stop()
    assert MARK not in caplog.text
    copied = pickle.loads(pickle.dumps(task))
    assert copied == task
    assert copied.client.ssl_key_store.key_password.reveal() == f"{MARK}-4"


@pytest.mark.parametrize("name", [name for name, value in OPTIONS.items() if MARK in value])
def test_a_mistake_beside_a_secret_does_not_show_it(name: str) -> None:
    misspelt = {f"{key}x" if key == name else key: value for key, value in OPTIONS.items()}
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse(misspelt, streaming=False)
    assert name in str(caught.value)
    assert MARK not in str(caught.value)
