"""The text of a batch: tokens, statement parser, expressions. Only this package uses sqlglot's parser."""
