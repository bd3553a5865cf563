"""Which zip files leave the import path of Spark's Python workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from directkafka.spark.worker_imports import without_zip


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    """A folder in which pip has installed PySpark."""
    package = tmp_path / "site-packages" / "pyspark"
    (package / "python" / "lib").mkdir(parents=True)
    (package / "daemon.py").touch()
    return package.parent


def zip_in(spark_home: Path) -> str:
    return str(spark_home / "python" / "lib" / "pyspark.zip")


def test_the_zip_file_goes_when_its_package_is_on_the_path_too(site_packages: Path) -> None:
    zip_file = zip_in(site_packages / "pyspark")
    path = ["", zip_file, "/lib/py4j-src.zip", str(site_packages)]
    assert without_zip(path) == ["", "/lib/py4j-src.zip", str(site_packages)]


def test_the_zip_file_of_another_spark_stays(site_packages: Path, tmp_path: Path) -> None:
    path = [zip_in(tmp_path / "spark-4.2.0"), str(site_packages)]
    assert without_zip(path) == path


def test_the_zip_file_stays_when_its_package_is_not_on_the_path(site_packages: Path) -> None:
    path = [zip_in(site_packages / "pyspark"), "/elsewhere"]
    assert without_zip(path) == path
