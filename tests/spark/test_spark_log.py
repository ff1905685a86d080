"""What Spark's log says of an expression that fails for a record."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
from pyspark import SparkConf
from pyspark.sql import functions as F
from lakeingest.spark import jvm, launch

conf = SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false")
conf.set("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={jvm.LOGGING.as_uri()}")
spark = launch.launch(conf, Path(sys.argv[1]))
launch.hide_values()
secret = spark.createDataFrame([("hu" + "sh",)], "m STRING")
for fails in (F.col("m").cast("int"), F.udf(lambda m: int(m), "INT")("m"), F.col("nobody")):
    try:
        secret.select(fails).write.format("noop").mode("overwrite").save()
    except Exception:
        pass
"""


@pytest.mark.faults
def test_no_value_of_a_record_is_logged(tmp_path: Path) -> None:
    """The value of a masked field stood there, of Spark and of PySpark; the condition and the place still do."""
    log = tmp_path / "log"
    subprocess.run([sys.executable, "-c", SCRIPT, log], timeout=120, check=True, capture_output=True)
    text = log.read_text()
    assert "hush" not in text
    for said in ("[CAST_INVALID_INPUT] not shown, SQLSTATE: 22", "ValueError: not shown", "in <lambda>", "\tat org."):
        assert said in text
    assert "QueryContextLogger" in text
    assert "nobody" in text
