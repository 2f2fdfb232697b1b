"""The functions of T-SQL. Each module is a family with a table FUNCTIONS; `all_functions` merges them."""
