"""What is made of a run's events: the log, the metrics, the status page, OpenLineage. None of them can end a run."""
