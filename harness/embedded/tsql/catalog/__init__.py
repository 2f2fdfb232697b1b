"""Catalog views, DMVs and queues as tables: columns declared once, rows made from the broker's objects when asked."""
