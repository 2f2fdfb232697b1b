"""XML: the values of the type xml, which is also what a body of a WELL_FORMED_XML message must be."""
