"""What is done with a pipeline besides running it, a module for each command."""
