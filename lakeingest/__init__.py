"""lakeingest: Kafka records into Delta Lake tables on S3, exactly once."""
