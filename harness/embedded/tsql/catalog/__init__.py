"""Catalog views, dynamic management views and queues as tables.

Each family of views is one module. A view declares its columns once; its rows are made from the broker's objects when
a query reads it. `lookup` finds a view by its name.
"""
