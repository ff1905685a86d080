"""What a topic, or a sample of it, says about the pipeline file that it needs."""
