"""XML: values of type xml, which is also what a body of a WELL_FORMED_XML message must be; paths into them; their
changes; rows as XML; and schemas. T-SQL's part is `tsql.translation.xml_methods` and `tsql.translation.for_xml`.
"""
