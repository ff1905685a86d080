"""What runs, backfills, late records, replays and adoptions do differently: one module for each kind."""
