"""The data of the demos: real flights, real weather in three versions of a schema, and the topics they go to."""
