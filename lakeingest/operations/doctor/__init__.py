"""What a pipeline needs before it runs, looked at one by one."""
