"""Entry to traces: it says what is missing, and loads OpenTelemetry, which an extra brings, when it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from directkafka.errors import OptionError
from directkafka.options.texts import check_installed

if TYPE_CHECKING:
    from directkafka.monitoring.tracing import PipelineTracer

#: With one of these, OpenTelemetry knows where spans go; see its specification of the OTLP exporter.
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def trace_pipelines(*, option: str = "traces") -> PipelineTracer:
    """Make an OpenTelemetry span of each batch of all pipelines of this process, until the result is closed.

    Spans go to the tracer provider that the program has set. Without one, they are sent by OTLP over HTTP to where the
    environment says: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME`` and OpenTelemetry's other variables.

    Args:
        option: where this was asked for, for the message.

    Returns:
        What makes the spans, from a thread; ``close()`` ends it, and so does the end of a ``with`` block.

    Raises:
        OptionError: the extra ``otel`` is not installed.
    """
    for package in ("opentelemetry", "opentelemetry.sdk"):
        check_installed(package, extra="otel", option=option)
    from directkafka.monitoring.tracing import PipelineTracer, tracer_of_process

    try:
        return PipelineTracer(tracer_of_process())
    except ImportError as error:
        # A program with a provider of its own need not have it.
        reason = f"{error.name} is not installed: run pip install '.[otel]' in a checkout of directkafka"
        raise OptionError(option=option, reason=reason) from None


def is_asked_for() -> bool:
    """Whether OpenTelemetry's variables name a place for spans, and none of them says that there shall be none."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or "none" in os.environ.get(
        "OTEL_TRACES_EXPORTER", ""
    )
    return not is_off and any(os.environ.get(name) for name in _ENDPOINTS)
