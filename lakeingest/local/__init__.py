"""The embedded stack: Kafka, an S3 server and a schema registry on loopback, and how their files are fetched.

Importing this package is cheap: it reads one small file, and needs neither boto3 nor confluent_kafka.
"""

from lakeingest.local.addresses import Addresses, running

__all__ = ["Addresses", "running"]
