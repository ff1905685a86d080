"""The run of a pipeline: preflight, micro-batches, recovery, schema evolution, retries."""
