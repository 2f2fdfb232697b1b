"""Text of a batch: tokens, parser, expressions."""
