"""The syntax of T-SQL as far as this server knows it: tokens, nodes, and a parse function for each statement."""
