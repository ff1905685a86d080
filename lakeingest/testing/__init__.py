"""What users rehearse their own pipelines with: servers that can be hurt, and proxies that hurt what is behind."""
