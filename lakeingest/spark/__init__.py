"""The Spark session and what lakeingest adds to it: settings, S3, types, times, the jar, and what its failures mean."""
